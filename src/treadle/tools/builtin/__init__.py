"""The tools that ship with Treadle. The model reads the description of `NAME.py` from `NAME.md`.

base.py          the base class of built-in tools
coding.py        `default_tools`: the tools of the coding assistant
read.py          `read`
survey.py        encoding, lines and digest of a file
notebook.py      the cells of a notebook
pdf_pages.py     the pages of a PDF
pdf_text.py      the text of PDF pages, in a child process
write.py         `write`
edit.py          `edit`
ls.py            `ls`
glob.py          `glob`
apply_patch.py   `apply_patch`
patches.py       applying patches
patch_format.py  parsing patches
patch_state.py   detecting whether a patch was applied
grep.py          `grep`
bash.py          `bash`
bash_output.py   `bash_output`
bash_kill.py     `bash_kill`
fetch.py         `fetch`
todo_write.py    `todo_write`
agent.py         `agent`
complete.py      `complete`
files.py         resolving, reading and replacing files
file_errors.py   errors of file access, worded for the model
folder.py        an open directory that follows no links
text.py          file contents as text: encoding and line endings
matching.py      locating the text of an edit in a file
difference.py    a short diff of two texts
restore.py       undoing changes of `write` and `edit`
patterns.py      file name patterns
walk.py          files below a directory, without ignored ones
search.py        searching without ripgrep
ripgrep.py       searching with ripgrep
report.py        search results as the model reads them
web.py           fetching one public page
page.py          HTML as text
commands.py      running one shell command, confined or not
processes.py     ending a process with everything it started
jobs.py          background commands of a session
"""
