"""Tables of guarded files, each with the tool that reads it and its documentation.

A heading names the tool and its source; the patterns below it, separated by blanks, are that
tool's. A bare name matches a file or folder of that name anywhere, and everything below it. A
pattern with slashes is a path that may begin anywhere; a leading slash is the root of the file
system. * and ? match within one name.

Project files that users run deliberately, such as Makefile, package.json, pyproject.toml or
conftest.py, are code of the project and not listed. Sources with a date were read on that date.
guarded_paths.py compares paths with the patterns. Entry points: `patterns_of`, `sources_of`.
"""

from __future__ import annotations

from collections.abc import Iterator

SEALED = """
# git: https://git-scm.com/docs/gitrepository-layout 2026-11-22
.git
# Mercurial: https://www.mercurial-scm.org/doc/hgrc.5.html
.hg
# Sapling: https://sapling-scm.com/docs/internals/internal-difference-hg
.sl
# Subversion: https://svnbook.red-bean.com/en/1.7/svn.developer.insidewc.html
.svn
# Pijul: https://pijul.org/manual/reference/configuration.html
.pijul
# Breezy: https://www.breezy-vcs.org/doc/en/user-reference/configuration-help.html
.bzr
# Darcs: https://darcs.net/manual
_darcs
# Fossil: https://fossil-scm.org/home/doc/trunk/www/whyallinone.md
.fslckout _FOSSIL_
# Jujutsu before 0.38: https://docs.rs/crate/jj-cli/0.41.0/source/docs/design/secure-config.md 2026-11-22
.jj/repo/config.toml .jj/workspace-config.toml
# repo: https://gerrit.googlesource.com/git-repo/+/HEAD/docs/internal-fs-layout.md
.repo/repo .repo/manifests.git
# Treadle: docs/configuration.md
.treadle
# Model Context Protocol: https://code.claude.com/docs/en/mcp
.mcp.json
# Visual Studio Code: https://code.visualstudio.com/docs/editor/workspace-trust
.vscode/settings.json .vscode/tasks.json .vscode/launch.json .vscode/mcp.json
# Cursor: https://cursor.com/docs/context/mcp
.cursor/mcp.json .cursor/hooks.json .cursor/cli.json
# Claude Code: https://code.claude.com/docs/en/settings
.claude/settings*.json .claude/hooks .claude.json
# Codex: https://developers.openai.com/codex/config-reference
.codex/*.toml .codex/*.json
# Gemini CLI: https://github.com/google-gemini/gemini-cli/blob/main/docs/get-started/configuration.md
.gemini/settings.json
# Qwen Code: https://qwenlm.github.io/qwen-code-docs/en/users/configuration/settings 2026-11-22
.qwen/settings*.json
# Mistral Vibe: https://github.com/mistralai/mistral-vibe#configuration 2026-11-22
.vibe/*.toml
# Factory: https://docs.factory.ai/cli/configuration/mcp 2026-11-22
.factory/settings*.json .factory/mcp.json .factory/hooks
# Junie: https://www.jetbrains.com/help/junie/model-context-protocol-mcp.html
.junie/mcp
# OpenHands: https://docs.openhands.dev/openhands/usage/customization/repository 2026-11-22
.openhands/*.sh .openhands/hooks.json
# Amazon Q: https://docs.aws.amazon.com/amazonq/latest/qdeveloper-ug/command-line-mcp-configuration.html
.amazonq/mcp.json .amazonq/cli-agents
# Kilo Code: https://kilo.ai/docs/features/mcp/using-mcp-in-kilo-code
.kilocode/mcp.json
# Amp: https://ampcode.com/manual
.amp/settings.json
# Roo Code: https://docs.roocode.com/features/mcp/using-mcp-in-roo
.roo/mcp.json
# Kiro: https://kiro.dev/docs/mcp/configuration
.kiro/settings
# Windsurf: https://docs.windsurf.com/windsurf/cascade/mcp
.windsurf/mcp_config.json
# Continue: https://docs.continue.dev/reference
.continue/config.*
# opencode: https://opencode.ai/docs/config
.opencode/opencode.json* opencode.json opencode.jsonc
# Crush: https://github.com/charmbracelet/crush#configuration
crush.json .crush.json
# OpenSSH: https://man.openbsd.org/ssh_config
.ssh
# GnuPG: https://www.gnupg.org/documentation/manuals/gnupg/GPG-Configuration.html
.gnupg
# launchd: https://developer.apple.com/library/archive/documentation/MacOSX/Conceptual/BPSystemStartup/Chapters/CreatingLaunchdJobs.html
LaunchAgents LaunchDaemons
# the kernel: https://docs.kernel.org/filesystems/proc.html
/boot /proc /sys /dev/sd* /dev/hd* /dev/vd* /dev/xvd* /dev/nvme* /dev/mmcblk* /dev/disk* /dev/rdisk* /dev/mem /dev/kmem /dev/port /dev/mapper
/dev/dm-* /dev/loop* /dev/md*
# the system's start, accounts and libraries: https://refspecs.linuxfoundation.org/FHS_3.0/fhs/ch03s07.html
/etc/cron* /etc/init* /etc/rc* /etc/profile* /etc/bash* /etc/zsh* /etc/zprofile /etc/environment* /etc/sudoers* /etc/passwd* /etc/shadow*
/etc/group* /etc/gshadow* /etc/ld.so* /etc/pam* /etc/ssh /etc/systemd /etc/udev /etc/gitconfig /var/spool/cron /usr/lib/systemd /lib/systemd
"""  # noqa: E501
"""Files that control what runs, needs approval or is trusted on this machine."""

INSTRUCTS = """
# agents of several vendors: https://agents.md and https://agentskills.io/specification
AGENTS.md AGENTS.override.md AGENT.md .agents .agent SKILL.md CONVENTIONS.md mcp.json
# Claude Code: https://code.claude.com/docs/en/memory
CLAUDE.md CLAUDE.local.md .claude
# Codex: https://developers.openai.com/codex/guides/agents-md
.codex
# Gemini CLI: https://github.com/google-gemini/gemini-cli/blob/main/docs/cli/gemini-md.md
GEMINI.md .gemini
# Qwen Code: https://qwenlm.github.io/qwen-code-docs/en/users/configuration/settings 2026-11-22
QWEN.md .qwen
# Crush: https://github.com/charmbracelet/crush#configuration
CRUSH.md
# Mistral Vibe: https://github.com/mistralai/mistral-vibe#configuration 2026-11-22
.vibe
# Factory: https://docs.factory.ai/cli/configuration/custom-droids 2026-11-22
.factory
# Junie: https://www.jetbrains.com/help/junie/customize-guidelines.html 2026-11-22
.junie
# JetBrains AI Assistant: https://www.jetbrains.com/help/ai-assistant/configure-project-rules.html
.aiassistant
# OpenHands: https://docs.openhands.dev/openhands/usage/customization/repository 2026-11-22
.openhands
# Zed: https://zed.dev/docs/ai/rules 2026-11-22
.rules .zed
# GitHub Copilot: https://docs.github.com/en/copilot/how-tos/custom-instructions
copilot-instructions.md .github/instructions .github/prompts .github/chatmodes .github/agents .github/hooks .github/skills
# Cursor: https://cursor.com/docs/context/rules
.cursorrules .cursor
# Windsurf: https://docs.windsurf.com/windsurf/cascade/memories
.windsurfrules .windsurf
# Cline: https://docs.cline.bot/customization/cline-rules
.clinerules
# Roo Code: https://docs.roocode.com/features/custom-instructions
.roorules .roomodes .roo
# Kilo Code: https://kilo.ai/docs/advanced-usage/custom-rules
.kilocode .kilocodemodes
# Trae: https://docs.trae.ai/ide/rules
.trae
# Augment: https://docs.augmentcode.com/setup-augment/guidelines
.augment .augment-guidelines
# Amazon Q: https://docs.aws.amazon.com/amazonq/latest/qdeveloper-ug/context-project-rules.html
.amazonq
# Warp: https://docs.warp.dev/knowledge-and-collaboration/rules
WARP.md
# Firebender: https://docs.firebender.com/api-reference/agents-md.md 2026-11-22
.firebender firebender.json
# Kiro: https://kiro.dev/docs/steering
.kiro
# Continue: https://docs.continue.dev/customize/deep-dives/rules
.continue .continuerules
# opencode: https://opencode.ai/docs/agents
.opencode
# Amp: https://ampcode.com/manual
.amp
# aider: https://aider.chat/docs/config/aider_conf.html
.aider*
# goose: https://block.github.io/goose/docs/guides/using-goosehints
.goosehints
# direnv: https://direnv.net/man/direnv.1.html
.envrc .envrc.* .direnv .direnvrc
# autoenv: https://github.com/hyperupcall/autoenv
.autoenv .autoenv.* .autoenv_leave.*
# mise: https://mise.jdx.dev/configuration.html 2026-11-22
mise.toml mise.*.toml .mise.toml .mise.*.toml .mise mise/config*.toml .rtx.toml .tool-versions
# asdf: https://asdf-vm.com/manage/configuration.html
.asdfrc
# Devbox: https://www.jetify.com/docs/devbox/configuration
devbox.json .devbox
# Flox: https://flox.dev/docs/concepts/environments
.flox
# devenv: https://devenv.sh/files-and-variables
.devenv
# bash: https://www.gnu.org/software/bash/manual/bash.html#Bash-Startup-Files
.bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile
# zsh: https://zsh.sourceforge.io/Doc/Release/Files.html
.zshrc .zshenv .zprofile .zlogin .zlogout
# other shells: https://man.openbsd.org/ksh and https://man.freebsd.org/cgi/man.cgi?csh and https://xon.sh/xonshrc.html
.kshrc .mkshrc .yashrc .cshrc .tcshrc .login .xonshrc config.fish
# PowerShell: https://learn.microsoft.com/powershell/module/microsoft.powershell.core/about/about_profiles
profile.ps1 Microsoft.*_profile.ps1
# Readline: https://tiswww.case.edu/php/chet/readline/rluserman.html
.inputrc
# X: https://www.x.org/releases/current/doc/man/man1/xinit.1.xhtml
.xinitrc .xserverrc .xprofile .xsession* .xbindkeysrc .vnc/xstartup
# PAM: https://man7.org/linux/man-pages/man8/pam_env.8.html
.pam_environment
# git: https://git-scm.com/docs/gitattributes and https://git-scm.com/docs/githooks 2026-11-22
.gitconfig .gitmodules .gitattributes .githooks .git-hooks .git_hooks .hooks .git-templates .git-template .git_template
# Mercurial, Subversion and Jujutsu: https://docs.jj-vcs.dev/latest/config
.hgrc .subversion .jjconfig.toml
# Arcanist: https://secure.phabricator.com/book/phabricator/article/arcanist_new_project
.arcconfig .arcrc .arclint
# RBTools: https://www.reviewboard.org/docs/rbtools/latest/rbt/configuration
.reviewboardrc
# husky: https://typicode.github.io/husky/how-to.html
.husky .huskyrc*
# pre-commit: https://pre-commit.com
.pre-commit-config.yaml .pre-commit-config.yml .pre-commit-hooks.yaml
# prek: https://prek.j178.dev/configuration
prek.toml
# lefthook: https://lefthook.dev/configuration 2026-11-22
lefthook.* .lefthook.* lefthook-local.* .lefthook-local.* .lefthook .lefthook-local
# lint-staged: https://github.com/lint-staged/lint-staged#configuration
.lintstagedrc*
# simple-git-hooks: https://github.com/toplenboren/simple-git-hooks 2026-11-22
.simple-git-hooks.* simple-git-hooks.*
# overcommit: https://github.com/sds/overcommit#configuration
.overcommit.yml
# other hook managers: https://captainhook-git.github.io/captainhook and https://github.com/phpro/grumphp and https://hk.jdx.dev/configuration.html
captainhook.json grumphp.yml* .rusty-hook.toml .cargo-husky hk.pkl
# npm, yarn and pnpm: https://docs.npmjs.com/cli/configuring-npm/npmrc and https://yarnpkg.com/configuration/yarnrc and https://pnpm.io/pnpmfile
.npmrc .yarnrc* .pnpmfile.cjs .pnpmfile.mjs
# Bun: https://bun.sh/docs/runtime/bunfig
bunfig.toml .bunfig.toml
# pip and twine: https://pip.pypa.io/en/stable/topics/configuration
.pypirc pip.conf pip.ini .pydistutils.cfg
# conda: https://docs.conda.io/projects/conda/en/stable/user-guide/configuration/use-condarc.html
.condarc
# Python: https://docs.python.org/3/library/site.html and https://docs.python.org/3/library/pdb.html
.pythonrc* sitecustomize.py usercustomize.py .pdbrc
# IPython and Jupyter: https://ipython.readthedocs.io/en/stable/config/intro.html
.ipython ipython_config.py .jupyter jupyter_*_config.*
# ripgrep: https://github.com/BurntSushi/ripgrep/blob/master/GUIDE.md#configuration-file
.ripgreprc .rgrc
# ack: https://beyondgrep.com/documentation
.ackrc
# Vim and Neovim: https://vimhelp.org/starting.txt.html and https://neovim.io/doc/user/options.html#'exrc'
.vimrc .vim .lvimrc .vimspector.json .nvimrc .nvim.lua .lazy.lua .exrc .gvimrc
# Emacs: https://www.gnu.org/software/emacs/manual/html_node/emacs/Directory-Variables.html
.emacs* .spacemacs .dir-locals.el .dir-locals-2.el
# Helix: https://docs.helix-editor.com/configuration.html
.helix
# YouCompleteMe: https://github.com/ycm-core/YouCompleteMe#option-2-provide-the-flags-manually
.ycm_extra_conf.py
# Lua language server: https://luals.github.io/wiki/configuration
.luarc.json .luarc.jsonc
# debuggers: https://sourceware.org/gdb/current/onlinedocs/gdb.html/Startup.html and https://lldb.llvm.org/man/lldb.html
.gdbinit .gdbearlyinit .lldbinit* .radare2rc .rdbgrc .byebugrc .perldb
# netrc, wget and curl: https://everything.curl.dev/cmdline/configfile.html
.netrc .wgetrc .curlrc
# less: https://man7.org/linux/man-pages/man1/lesskey.1.html
.lesskey* .lessfilter
# nano: https://www.nano-editor.org/dist/latest/nanorc.5.html
.nanorc
# Midnight Commander: https://source.midnight-commander.org/man/mc.html
.mc.menu
# tmux and screen: https://man.openbsd.org/tmux and https://www.gnu.org/software/screen/manual/screen.html and https://github.com/tmuxinator/tmuxinator
.tmux.conf .screenrc .tmuxinator.y*ml .tmuxp.* .smug.yml
# WezTerm: https://wezterm.org/config/files.html
.wezterm.lua
# mail: https://www.rfc-editor.org/rfc/rfc1524 and https://www.postfix.org/local.8.html
.mailcap .forward .procmailrc
# remote logins: https://man7.org/linux/man-pages/man5/hosts.equiv.5.html
.rhosts .shosts .k5login
# Ruby: https://docs.ruby-lang.org/en/master/IRB.html
.irbrc .pryrc .gemrc
# Perl: https://perltidy.sourceforge.net/perltidy.html and https://metacpan.org/dist/Test-Harness/view/bin/prove
.perltidyrc .proverc
# R: https://stat.ethz.ch/R-manual/R-devel/library/base/html/Startup.html
.Rprofile .Renviron
# Julia: https://docs.julialang.org/en/v1/manual/command-line-interface/#Startup-file 2026-11-22
.julia/config
# REPLs, each in its working directory: https://downloads.haskell.org/ghc/latest/docs/users_guide/ghci.html and https://hexdocs.pm/iex/IEx.html and https://docs.octave.org/latest/Startup-Files.html
.ghci .ocamlinit .iex.exs .erlang .octaverc .sbclrc .guile .racketrc .tclshrc .gnuplot .psysh.php .psqlrc .sqliterc
# phpbrew: https://github.com/phpbrew/phpbrew
.phpbrewrc
# development containers: https://containers.dev/implementors/spec
.devcontainer .devcontainer.json
# editors and their tasks: https://code.visualstudio.com/docs/editor/tasks and https://www.jetbrains.com/help/idea/trusted-projects.html
.vscode .theia .vs .idea .fleet .nova .kateproject .externalToolBuilders *.code-workspace *.sublime-project
# Cargo: https://doc.rust-lang.org/cargo/reference/config.html
.cargo/config*
# Docker, Kubernetes and clouds: https://docs.docker.com/reference/cli/docker/#docker-cli-configuration-file-configjson-properties
.docker .kube .aws .azure .terraformrc
# the user's folders: https://specifications.freedesktop.org/basedir-spec/latest
.config .local/bin .local/share/applications .local/share/systemd .local/share/dbus-1 .local/share/bash-completion
"""  # noqa: E501
"""Files that instruct agents, or that shells and tools of this machine run later."""

REVIEWED = """
# GitHub: https://docs.github.com/en/actions
.github/workflows .github/actions .github/CODEOWNERS .github/dependabot.yml
# GitLab: https://docs.gitlab.com/ci
.gitlab-ci.yml .gitlab-ci
# CircleCI: https://circleci.com/docs/configuration-reference
.circleci
# Travis CI: https://docs.travis-ci.com
.travis.yml
# Drone and Woodpecker: https://docs.drone.io and https://woodpecker-ci.org/docs/usage/intro
.drone.yml .woodpecker .woodpecker.yml
# Buildkite: https://buildkite.com/docs/pipelines
.buildkite
# TeamCity: https://www.jetbrains.com/help/teamcity/storing-project-settings-in-version-control.html
.teamcity
# Forgejo and Gitea: https://forgejo.org/docs/latest/user/actions and https://docs.gitea.com/usage/actions
.forgejo .gitea
# Cirrus CI: https://cirrus-ci.org/guide/writing-tasks
.cirrus.yml
# AppVeyor: https://www.appveyor.com/docs/appveyor-yml
appveyor.yml
# Azure Pipelines: https://learn.microsoft.com/azure/devops/pipelines
azure-pipelines.yml
# Bitbucket: https://support.atlassian.com/bitbucket-cloud/docs/bitbucket-pipelines-configuration-reference
bitbucket-pipelines.yml
# Jenkins: https://www.jenkins.io/doc/book/pipeline/jenkinsfile
Jenkinsfile
# Cloud Build: https://cloud.google.com/build/docs/build-config-file-schema
cloudbuild.yaml
# workspaces in the cloud: https://www.gitpod.io/docs/references/gitpod-yml and https://docs.replit.com and https://firebase.google.com/docs/studio
.gitpod.yml .replit .idx .codesandbox
"""  # noqa: E501
"""Files that run on other machines later."""


def patterns_of(table: str) -> list[str]:
    """Return the patterns of a table without its headings."""
    return [
        pattern
        for line in table.split("\n")
        if not line.startswith("#")
        for pattern in line.split()
    ]


def sources_of(table: str) -> Iterator[tuple[str, str, str]]:
    """Yield each pattern with the tool that reads it and its source."""
    tool, source = "", ""
    for line in table.split("\n"):
        if line.startswith("#"):
            tool, _, source = line.removeprefix("# ").partition(": ")
        else:
            yield from ((pattern, tool, source) for pattern in line.split())
