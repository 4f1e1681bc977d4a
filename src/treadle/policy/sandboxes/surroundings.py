"""Environment of a confined command: only listed variables, unless everything was allowed. Entry:
`confined_environment`.
"""

from __future__ import annotations

from collections.abc import Mapping

from treadle._internal.environment import for_a_shell

_ALWAYS = """
PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TERM COLUMNS LINES NO_COLOR FORCE_COLOR CI NONINTERACTIVE PAGER GIT_PAGER LESS DEBIAN_FRONTEND
PIP_PROGRESS_BAR TQDM_DISABLE AI_AGENT TREADLE_PROCESS_TREE VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV PYENV_ROOT PYENV_VERSION NVM_DIR NVM_BIN
VOLTA_HOME FNM_DIR ASDF_DIR ASDF_DATA_DIR MISE_DATA_DIR RBENV_ROOT GEM_HOME GEM_PATH GOPATH GOROOT GOTOOLCHAIN CARGO_HOME RUSTUP_HOME
RUSTUP_TOOLCHAIN JAVA_HOME MAVEN_HOME GRADLE_HOME ANDROID_HOME ANDROID_SDK_ROOT DOTNET_ROOT PNPM_HOME BUN_INSTALL DENO_DIR CC CXX CFLAGS CXXFLAGS
CPPFLAGS LDFLAGS PKG_CONFIG_PATH MAKEFLAGS CMAKE_PREFIX_PATH NIX_PATH NIX_PROFILES NIX_SSL_CERT_FILE LOCALE_ARCHIVE TERMINFO TERMINFO_DIRS
PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED PYTHONUTF8 PYTHONIOENCODING PYTHONHASHSEED NODE_ENV RAILS_ENV RACK_ENV DJANGO_SETTINGS_MODULE
"""  # noqa: E501
ALWAYS = frozenset(_ALWAYS.split())
"""Variables that describe the user, the location, and the directories of language tools.

Excludes variables that name code to be loaded, such as LD_PRELOAD and PYTHONPATH.
"""
IN_PLACE = {
    "TMPDIR": "/tmp",
    "XDG_CACHE_HOME": "/tmp/.cache",
    "npm_config_cache": "/tmp/.cache/npm",
    "GIT_OPTIONAL_LOCKS": "0",
}
"""Caches are redirected, because the home directory is not writable."""


def confined_environment(
    environment: Mapping[str, str], *, is_open: bool = False
) -> dict[str, str]:
    """Return the variables that a confined command receives.

    `is_open`: everything was allowed, so every variable without a key is passed. Variables of the
    dynamic loader are never passed, because they would also affect bubblewrap, which is not
    confined.
    """
    passed = {
        name: value
        for name, value in environment.items()
        if is_open or name in ALWAYS or name.startswith("LC_")
    }
    return {
        name: value
        for name, value in for_a_shell(passed).items()
        if not name.startswith(("LD_", "DYLD_"))
    } | IN_PLACE
