"""Which files are guarded and which probably contain a secret, one by one: no line of a table goes
without a test that misses it.
"""

from __future__ import annotations

import pytest

from treadle.policy.guarded_paths import (
    PathGuard,
    first_guarded,
    guard_of,
    is_secret,
    may_name_a_secret,
)
from treadle.policy.guarded_tools import INSTRUCTS as INSTRUCTS_TABLE
from treadle.policy.guarded_tools import REVIEWED as REVIEWED_TABLE
from treadle.policy.guarded_tools import SEALED as SEALED_TABLE
from treadle.policy.guarded_tools import patterns_of, sources_of

# As they lie on a disk, and not as the tables spell them. A first slash is the root; all others are
# tried in more than one folder.

SEALED = """
.git/config .git/hooks/pre-commit .hg/hgrc .svn/entries .treadle/config.yaml .mcp.json
.vscode/settings.json .vscode/tasks.json .vscode/launch.json .vscode/mcp.json
.cursor/mcp.json .cursor/hooks.json .cursor/cli.json
.claude/settings.json .claude/settings.local.json .claude/hooks/start.sh .claude.json
.codex/config.toml .codex/auth.json .gemini/settings.json .amp/settings.json .roo/mcp.json .kiro/settings/mcp.json .windsurf/mcp_config.json
.qwen/settings.json .vibe/config.toml .factory/settings.json .factory/mcp.json .junie/mcp/mcp.json .openhands/setup.sh .amazonq/mcp.json .kilocode/mcp.json
.jj/repo/config.toml .jj/workspace-config.toml .sl/config .pijul/config .bzr/branch/branch.conf _darcs/prefs/defaults .fslckout .repo/repo/main.py
.continue/config.yaml .continue/config.ts .opencode/opencode.json .opencode/opencode.jsonc opencode.json opencode.jsonc crush.json .crush.json
.ssh/authorized_keys .gnupg/gpg.conf LaunchAgents/x.plist LaunchDaemons/x.plist
/boot/vmlinuz /proc/1/mem /sys/kernel/x /etc/crontab /etc/cron.d/x /etc/init.d/x /etc/inittab /etc/rc.local /etc/profile /etc/profile.d/x.sh
/etc/bash.bashrc /etc/bashrc /etc/zsh/zshrc /etc/zshrc /etc/zprofile /etc/environment /etc/environment.d/x.conf /etc/sudoers /etc/sudoers.d/x
/etc/passwd /etc/passwd- /etc/shadow /etc/group /etc/gshadow /etc/ld.so.preload /etc/ld.so.conf.d/x /etc/pam.d/sudo /etc/pam.conf
/etc/ssh/sshd_config /etc/systemd/system/x.service /etc/udev/rules.d/x /etc/gitconfig /var/spool/cron/root
/usr/lib/systemd/system/x /lib/systemd/system/x
/dev/sda /dev/sda1 /dev/hda /dev/vda /dev/xvda /dev/nvme0n1p1 /dev/mmcblk0 /dev/disk0 /dev/disk/by-id/x /dev/rdisk0 /dev/mem /dev/kmem /dev/port
/dev/mapper/root /dev/dm-0 /dev/loop0 /dev/md0 /dev/md/x
"""
INSTRUCTS = """
AGENTS.md AGENTS.override.md AGENT.md CLAUDE.md CLAUDE.local.md GEMINI.md QWEN.md CRUSH.md CONVENTIONS.md SKILL.md copilot-instructions.md
.github/instructions/x.md .github/prompts/x.md .github/chatmodes/x.md .github/agents/x.md .github/hooks/x.json
.cursorrules .cursor/rules/x.mdc .windsurfrules .windsurf/rules/x.md .clinerules .clinerules/x.md .roorules .roo/rules/x.md .kiro/steering/x.md
.claude/commands/x.md .claude/agents/x.md .codex/prompts/x.md .gemini/commands/x .continue/rules/x.md .opencode/agent/x.md .amp/x .aider.conf.yml .goosehints
.envrc .direnvrc mise.toml .mise.toml .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile
.zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .cshrc .tcshrc .login .inputrc config.fish .xinitrc .xprofile .xsession .xsessionrc .pam_environment
.gitconfig .gitmodules .gitattributes .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .pypirc pip.conf .pythonrc .pythonrc.py sitecustomize.py usercustomize.py
.ripgreprc .rgrc .vimrc .nvimrc .nvim.lua .exrc .gvimrc .emacs .emacs.d/init.el .dir-locals.el .gdbinit .lldbinit .netrc .wgetrc .curlrc
.lesskey .lesskey.src .tmux.conf .screenrc .mailcap .irbrc .pryrc .perltidyrc .Rprofile
.qwen/commands/x .vibe/prompts/x.md .factory/droids/x.md .junie/guidelines.md .rules .openhands/microagents/repo.md .kilocode/rules/x.md .trae/rules/x.md
WARP.md mise.local.toml .mise.local.toml .mise/config.toml mise/config.toml .tool-versions .direnv/profile.rc .envrc.local devbox.json .flox/env/manifest.toml
lefthook-local.yml .lefthook-local.toml lefthook.json .lefthook/pre-commit/x.sh .githooks/pre-commit .hooks/pre-commit .git-hooks/pre-commit .overcommit.yml
prek.toml .pdbrc .ghci .iex.exs .helix/languages.toml .vim/x.vim .ycm_extra_conf.py .nanorc .mc.menu bunfig.toml .condarc .hgrc .jjconfig.toml
.husky/_/h .husky/pre-commit .pre-commit-config.yaml .pre-commit-config.yml lefthook.yml .lefthook.yml .lintstagedrc .lintstagedrc.json
.devcontainer/devcontainer.json .devcontainer.json .vscode/extensions.json .idea/workspace.xml .zed/tasks.json .fleet/run.json
x.code-workspace x.sublime-project .cargo/config .cargo/config.toml .docker/config.json .kube/config .aws/config .azure/config .terraformrc
.config/fish/x .config/git/config mcp.json .local/bin/ls .local/share/applications/x.desktop
"""
REVIEWED = """
.github/workflows/ci.yml .github/actions/x/action.yml .github/CODEOWNERS .github/dependabot.yml .gitlab-ci.yml .gitlab-ci/x.yml .circleci/config.yml
.travis.yml .drone.yml .woodpecker/x.yml .woodpecker.yml .buildkite/pipeline.yml .teamcity/settings.kts .forgejo/workflows/x.yml .gitea/workflows/x.yml
.gitpod.yml .replit .idx/dev.nix .cirrus.yml appveyor.yml azure-pipelines.yml bitbucket-pipelines.yml Jenkinsfile cloudbuild.yaml
"""
OPEN = """
src/git/config git.config gitlog.md mcp.json.md amcp.json docs/AGENTS AGENTS.md.txt MYAGENTS.md .github/FUNDING.yml .github/ISSUE_TEMPLATE/bug.md
.gitignore .gitkeep .bashrc.d/x bashrc envrc .cargo/registry/x vscode/settings.json settings.json config.toml pip.config Jenkinsfile.md
Makefile package.json pyproject.toml conftest.py justfile Taskfile.yml Dockerfile flake.nix shell.nix .nvmrc .python-version .editorconfig hooks/use_x.ts
.jj/working_copy/tree_state mise/main.py .config.json rules/x.md bun.lock
.claude.md profile a/boot/vmlinuz a/sys/x a/proc/x a/etc/passwd a/dev/sda a/lib/systemd/x
/etc/hosts /etc/hostname /dev/null /dev/tty /usr/lib/x /var/spool/x /home/ada/x
"""
SECRET = """
.env .env.local .env.production prod.env .envrc .netrc _netrc .npmrc .yarnrc.yml .pypirc .pgpass .my.cnf .htpasswd .git-credentials
.git/config .git/credentials .git/modules/x/config .dockercfg .docker/config.json .kube/config kubeconfig prod.kubeconfig .ssh/config .gnupg/x .aws/config
.azure/x .oci/config .config/gcloud/x .config/gh/hosts.yml .config/hub .config/op/x .config/agent/x .boto .s3cfg rclone.conf
.vault-token .vault_pass .vault_password .terraformrc .terraform.d/x terraform.tfvars prod.auto.tfvars x.tfstate x.tfstate.backup
.cargo/credentials .cargo/credentials.toml .gem/credentials .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .composer/auth.json
.treadle/config.yaml .treadle/trust.json id_rsa id_rsa_work id_dsa id_ecdsa id_ed25519 deploy_rsa deploy_ed25519
x.pem x.key x.p8 x.p12 x.pfx x.jks x.keystore x.kdbx x.ppk x.ovpn
client_secret_1.json service-account.json service-account-x.json service_account.json firebase-adminsdk-x.json master.key
.bash_history .zsh_history .python_history .psql_history .mysql_history .node_repl_history .Xauthority
/etc/shadow /etc/gshadow /etc/sudoers /etc/ssl/private/x /run/secrets/x /var/run/secrets/x /proc/self/environ
secrets/x .secrets/x secret/x .secret/x credentials .credentials secrets.yaml secret.json credentials.xml x.secret x.secrets
app-secrets.yaml app_secrets.toml app-credentials.yaml app_credentials.toml gcpcredentials-1.json auth.json
"""
NO_SECRET = """
.env.example .env.sample .env.template .env.dist .env.defaults .env.schema .env.prod.example .env.prod.sample .env.prod.template
example.env sample.env template.env x.pem.example x.key.sample x.key.template x.pub x.pub.pem id_rsa.pub
environment env .environment x.environment keys.md pem.txt config/x .git/HEAD .config/x tests/test_auth.py author.json oauth.json
secrets.py src/secret.ts docs/credentials.md secrets/README.md credentials.rst app_secrets.go a/etc/shadow monkey
"""


def everywhere(paths: str) -> list[str]:
    return [
        place
        for path in paths.split()
        for place in ([path] if path.startswith("/") else [f"/{path}", f"/srv/a b/{path}"])
    ]


@pytest.mark.parametrize(
    ("guard", "paths"),
    [
        (PathGuard.SEALED, SEALED),
        (PathGuard.INSTRUCTS, INSTRUCTS),
        (PathGuard.REVIEWED, REVIEWED),
        (None, OPEN),
    ],
    ids=["sealed", "instructs", "reviewed", "open"],
)
def test_each_guarded_file_has_its_guard(guard: PathGuard | None, paths: str) -> None:
    found = {path: guard_of(path) for path in everywhere(paths)}
    assert {path: other for path, other in found.items() if other is not guard} == {}


@pytest.mark.parametrize(
    ("secret", "paths"), [(True, SECRET), (False, NO_SECRET)], ids=["secret", "none"]
)
def test_each_likely_secret_is_one_and_what_only_sounds_like_one_is_none(
    secret: bool, paths: str
) -> None:
    assert [path for path in everywhere(paths) if is_secret(path) is not secret] == []


CODE = """
adoc bash c cc cpp cs css dart erl ex exs go h hpp hs htm html ipynb java jl js jsx kt kts lua m md mdx mjs ml
php pl po proto py pyi r rb rs rst scala sh sql svelte swift ts tsx vue zig
"""


def test_code_and_pages_about_secrets_are_none() -> None:
    assert [
        kind
        for kind in CODE.split()
        if is_secret(f"/src/secrets.{kind}") or is_secret(f"/app_credentials.{kind.upper()}")
    ] == []
    assert is_secret("/src/secrets.py/x")
    assert is_secret("/src/id_rsa.py")


def test_each_pattern_names_its_tool_and_a_source_and_guards_what_it_matches() -> None:
    tables = {
        PathGuard.SEALED: SEALED_TABLE,
        PathGuard.INSTRUCTS: INSTRUCTS_TABLE,
        PathGuard.REVIEWED: REVIEWED_TABLE,
    }
    for guard, table in tables.items():
        entries = list(sources_of(table))
        assert [pattern for pattern, _, _ in entries] == patterns_of(table)
        assert [
            pattern
            for pattern, tool, source in entries
            if not tool or not source.startswith(("https://", "docs/"))
        ] == []
        samples = [
            "/" + pattern.lstrip("/").replace("*", "x").replace("?", "x")
            for pattern in patterns_of(table)
        ]
        assert [sample for sample in samples if guard_of(sample) is not guard] == []


@pytest.mark.parametrize(
    "path",
    ["/a/.GIT/config", "/a/.\uff47it/config", "/a/.g\u200cit/config", "/a/.gi\u200dt/config"],
    ids=ascii,
)
def test_a_name_that_some_file_system_takes_for_another_is_guarded_like_it(path: str) -> None:
    assert guard_of(path) is PathGuard.SEALED
    assert is_secret(path)


def test_the_strictest_guard_of_a_path_counts() -> None:
    assert guard_of("/a/.github/workflows/AGENTS.md") is PathGuard.INSTRUCTS
    assert guard_of("/a/AGENTS.md/.git/x") is PathGuard.SEALED


def test_below_a_secret_folder_even_an_example_is_secret() -> None:
    assert is_secret("/a/.ssh/config.example")
    assert not is_secret("/a/.env.example")


@pytest.mark.parametrize(
    "path",
    [
        "/a/.git/x",
        "/a//.git///x",
        "/a/./.git/./x",
        "/a/.GIT/x",
        "/a/AGENTS.md",
        "/a/.github/workflows/x",
        "/dev/sda",
    ],
)
def test_of_many_paths_the_first_that_is_guarded_is_told(path: str) -> None:
    told = first_guarded(["/a/b", "/a/c", path, "/z"])
    assert told is not None
    assert guard_of(told) is guard_of(
        path.replace("//", "/").replace("/./", "/").replace("//", "/")
    )
    assert first_guarded([path]) == told
    assert first_guarded(["/a/b", "/a/sub/c", ""]) is None


def test_the_paths_that_are_told_of_are_whole() -> None:
    assert first_guarded(["/first", "/shop/sub/.git/hooks/x", "/last"]) == "/shop/sub/.git/hooks/x"
    assert first_guarded(["/proc", "/last"]) == "/proc"


@pytest.mark.parametrize(
    "pattern",
    [
        ".e*",
        ".en?",
        "src/.e*",
        ".E*",
        "i*_rsa",
        "id_*",
        "*x/.netr*",
        "te*.tfvars",
        "ser*.json",
        ".n*c",
        "client*",
        "my*.pem",
    ],
)
def test_a_shell_pattern_may_stand_for_a_secret(pattern: str) -> None:
    assert may_name_a_secret(pattern) is (pattern != "my*.pem")


@pytest.mark.parametrize(
    "pattern",
    [
        "*",
        "*.py",
        "?env",
        "[.]env",
        "src*",
        "a*.txt",
        ".n*z",
        ".netrd*",
        "id_*.md/x",
        "readme*",
        "service*.yaml",
        "x*",
    ],
)
def test_other_shell_patterns_stand_for_none(pattern: str) -> None:
    assert not may_name_a_secret(pattern)
