"""The terminal UI of `treadle chat`, which turns input into runs and draws their events.

Finished output is written once into the terminal's own scrollback; below it is a small live region.
Runs belong to treadle.runtime. Reading order: chat.py (overview), conversation.py (runs),
transcript.py (events to blocks), screen.py (terminal). Entry points: `treadle.tui.start.chat`,
which is imported on its own so that the first paint waits for nothing else.

    acting.py        actions of the keys in an open chat
    approval.py      the approval prompt for a tool call
    approval_preview.py the preview in an approval prompt
    approving.py     asks for approvals and remembers granted rules
    blocks.py        finished output, written once into the scrollback
    calling.py       display names of tool calls
    containers.py    lists, quotes, code and tables around Markdown lines
    confirm.py       yes-or-no questions and the input of one line
    desk.py          protocol through which commands and pickers use the chat
    differences.py   file differences
    drawing.py       Rich renderables as scrollback text and as fragments
    ends.py          explanations of runs that did not complete
    file_names.py    file names below a directory, for completions
    going_back.py    going back to before an earlier prompt
    growing.py       splits streaming Markdown into finished and growing blocks
    highlighting.py  syntax highlighting
    inline.py        prompt_toolkit renderer for an inline screen
    input.py         the input line
    keys.py          key bindings of the input
    lines.py         the chat for plain terminals and screen readers
    live.py          unfinished output, redrawn with each frame
    markdown.py      Markdown rendering
    matching.py      search in lists
    mention_approval.py approval of file mentions in a prompt
    mentions.py      file mentions such as `@src/app.py:10-20`
    pages.py         blocks as rows of a full-screen view
    palettes.py      styles and glyphs as tables
    pasted.py        pasted text that contains mentions
    picker.py        selection from a list
    preview.py       preview of a call that needs approval
    region.py        the live region around the input
    reopening.py     display of a conversation that is opened
    rows.py          drawn lines as a prompt_toolkit layout
    slot.py          the place at the bottom of the screen for input and questions
    start.py         from the command to the first frame and the open chat
    start_request.py options of a chat
    status.py        the status line
    suggestions.py   completions
    tables.py        Markdown tables that fit the width
    theme.py         colours and glyphs
    transcript_children.py child runs in the transcript
    viewer.py        full-screen view of complete output
    wizard.py        first start without a key
    wizard_ways.py   ways to set up a first model
    wording.py       inline Markdown as Rich text
    commands/        slash commands
    pickers/         pickers for models, sessions and prompts
"""
