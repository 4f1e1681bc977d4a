"""The terminal UI, `treadle chat`: what a person says becomes runs, and what runs do is drawn.

Inline: what is finished is written once into the terminal's own scrollback; below it stands a small
region that lives. What a run is, and how it is kept, is the runtime's. Reading order: chat.py (the
whole), conversation.py (runs), transcript.py (events to blocks), screen.py (the terminal). Entry:
`treadle.tui.start.chat`, which is imported by itself so that the first paint waits for nothing
else.

    acting.py        what the keys do in an open chat
    approval.py      the question whether a call may run
    approval_choices.py the answers that a question about a call offers
    approving.py     asks the person about calls, and keeps what they said for more than one
    blocks.py        what is finished, and is written once into the scrollback
    calling.py       how a tool call is named on the screen
    confirm.py       asks the person yes or no, at the bottom of the screen
    desk.py          what commands, pickers and the wizard work
    differences.py   what changed in a file, for a person
    drawing.py       what Rich lays out, as text for a terminal's scrollback and as pieces
    editor.py        the input in the person's own editor
    ends.py          why a run that did not complete ended, in words for somebody who sits there
    file_names.py    the files below a directory by name, for completions
    going_back.py    back to before an earlier prompt
    growing.py       markdown that is still being written, given away block by block, so that only
    highlighting.py  source code in colours, by the name of its language or of its file
    inline.py        A renderer for an inline screen
    input.py         where the person types
    keys.py          which key does what while the person types
    lines.py         the chat on a terminal that can only print, and for a screen reader
    live.py          what is not finished yet, and so is drawn anew with each frame
    markdown.py      how Markdown looks
    matching.py      which rows of a list a person means by some words
    mention_approval.py which mentions of a prompt are attached
    mentions.py      files that a prompt names, like `@src/app.py:10-20`
    pages.py         blocks as rows of a full-screen view
    pasted.py        mentions that came into the input without being typed
    picker.py        one of many, chosen by a person
    preview.py       what a call would do, for whoever is asked about
    region.py        the live region around the input
    reopening.py     what stands on the screen when a conversation is opened
    rows.py          lines as a part of prompt_toolkit's layout, drawn as they
    slot.py          the one place at the bottom of the screen in which the person types
    start.py         from the command to the first frame, and from there to the open chat
    status.py        the last line of the screen
    suggestions.py   what could be typed
    tables.py        A Markdown table that fits
    theme.py         how things look
    viewer.py        everything at full length, on a screen of its own that one leaves again
    wizard.py        the first start
    wizard_entry.py  one line that a person types or pastes, a key say, which nobody sees then
    wizard_ways.py   which ways there are to a first model
    wording.py       the words of a Markdown block, as Rich text
    commands/        what a person can say to the chat itself
    pickers/         what a person chooses from in a chat

    start_request.py  what the command line asks of a chat
"""
