"""A rule for a command also covers lines that could run it without showing it: they are denied, or
a person is asked, in every mode.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.policy.shell.corpus import workspace
from treadle.policy.permissions import permissions_of
from treadle.policy.policy import decide_command


@pytest.fixture
def place(tmp_path: Path) -> Path:
    found = workspace(tmp_path)
    for folder in ("private", "prod"):
        (found / folder).mkdir()
        (found / folder / "y").write_text("y\n")
    return found


def verdict(text: str, place: Path, rule: str) -> str:
    return decide_command("full", text, place, permissions_of(deny=[rule])).verdict


REMOVE = r"""
$'\x{72}m' x
$'\162m' x
r""m x
\rm x
{r,}m x
?m x
/bin/[r]m x
[ a ]#; rm x
{ ls;}#; rm x;}
ls # rm x
X=rm; $X x
for c in rm; do $c x; done
while read c; do $c x; done
$(echo rm) x
`echo rm` x
alias l=rm; l x
hash -p /bin/rm l; l x
a() { rm x; }; a
trap "rm x" EXIT
test -v "a[$(rm x)]"
[ -v 'a[$(rm x)]' ]
[[ 'a[$(rm x)]' -eq 1 ]]
let 'a[$(rm x)]=1'
eval "r""m x"
eval $x
bash -c "$x"
cat f | bash
echo cm0gLXJm | base64 -d | sh
source <(echo rm x)
bash <<< "rm x"
xargs -I{} {} x
xargs -Il l x
ls | xargs -I{} sh -c "{} x"
find . -name rm -exec {} x \;
busybox rm x
env -S "rm x"
env -S "rm\_x"
bash -O extglob -c 'rm x'
bash -c -x 'rm x'
bash --rcfile a.txt -c 'rm x'
prlimit rm x
fakeroot rm x
rg --pre=rm foo
sort --compress-program=rm a.txt
split --filter='rm x' a.txt
cp /bin/rm q
npm test rm
""".strip("\n").split("\n")
PUSH = r"""
git -c alias.p=push p
git p x
git flow finish
git --exec-path=. push
git [p]ush
git p*
git $x
git "$x" origin
git send-pack x
echo push | xargs git
GIT_DIR=x git push
nice -n 3 git -c alias.p=push p
env -u X nohup git -c alias.p=push p
/usr/lib/git-core/git-push x
git submodule --quiet foreach git push
git rebase -x'git push' HEAD
git grep '-Ogit push' foo
git config alias.p push
""".strip("\n").split("\n")


@pytest.mark.parametrize("text", REMOVE)
def test_a_program_that_a_line_may_run_unseen_does_not_run_unasked(place: Path, text: str) -> None:
    assert verdict(text, place, "rm") in ("ask", "deny")


@pytest.mark.parametrize("text", PUSH)
def test_a_command_of_git_that_a_line_may_run_unseen_does_not_run_unasked(
    place: Path, text: str
) -> None:
    assert verdict(text, place, "git push") in ("ask", "deny")


@pytest.mark.parametrize(
    "text",
    [
        "for f in *.py; do echo $f; done",
        'git commit -m "$(date)"',
        "npm test && git add -A",
        "make; python3 -c 'print(1)'",
        'FOO=1 ./run.sh "$HOME"',
        "echo rm; git log --grep 'git push'",
        "cat > x.py <<'E'\nrm\nE",
    ],
)
def test_other_lines_run_as_before(place: Path, text: str) -> None:
    assert (
        decide_command("full", text, place, permissions_of(deny=["rm", "git push"])).verdict
        == "allow"
    )


WRITES = """
[ a > prod/y ]
[ b \\> a ]; [ -f a -o b > prod/y ]
echo x > prod/y
echo x >| prod/z
echo x &> prod/y
> prod/y
ls 2> prod/y a.txt
ls >&prod/y
exec 3> prod/y
echo x > $d
echo > pr*/y
cd prod && echo > y
sort --outp=prod/x a.txt
sed -n 'w prod/x' a.txt
cp -rT src .
rm -rf .
git checkout .
pushd src && cp ../a.txt ../prod/x
""".strip("\n").split("\n")
READS = """
cat [p]rivate/y
cat priv*/y
cat {a,private/y}
cat pri\\vate/y
cat $x
sort < private/y
cat < $x
cd private; cat y
while read l; do cat $l; done < a.txt
diff . private
tar c .
cp -r . /tmp/x
find . -type f | xargs cat
find . -exec cat {} +
grep -r x .
rg x
cat ../proj/private/y
pushd src && cat ../private/y
command cd src && cat ../private/y
env -C src cat ../private/y
tar -Csrc -cf - ../private/y
cat /proc/self/cwd/private/y
sort --files0-from=list
git grep --no-index y
npm pack
""".strip("\n").split("\n")


@pytest.mark.parametrize("text", WRITES)
def test_a_rule_for_writing_covers_redirections_wherever_they_stand(place: Path, text: str) -> None:
    assert verdict(text, place, "write(prod/**)") in ("contained", "ask", "deny")


@pytest.mark.parametrize("text", READS)
def test_a_rule_for_reading_covers_what_may_be_expanded(place: Path, text: str) -> None:
    assert verdict(text, place, "read(private/**)") in ("contained", "ask", "deny")
