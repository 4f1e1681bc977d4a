"""Places below a user's home folder where programs keep credentials, private data and histories, by
their documentation (November 2026).

One place a line, relative to the home folder; `*` matches within one name. A place is a file, or a
folder with all its content. guarded_paths.py has names that hold secrets anywhere, such as `.env`.
Entry points: `PLACES`, `ONLY_IN_HOME`, `names_a_place`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

from treadle._internal.wildcards import wildcards

CLOUDS = """
.aws
.aws-sso
.awsvault
.saml2aws
.granted
.Leapp
.okta
.okta_aws_login_config
.azure
.azure-devops
.IdentityService
.local/share/.IdentityService
.oci
.boto
.bluemix
.softlayer
.aliyun
.tccli
.hcloud
.ovh.conf
.config/ovh.conf
.config/gcloud
.config/doctl
.config/hcloud
.config/linode-cli
.config/scw
.config/exoscale
.config/openstack
.config/upctl.yaml
.config/vultr-cli.yaml
.vultr-cli.yaml
.civo.json
.config/yandex-cloud
.config/ionosctl
.config/stackit
.nebius
.crusoe
.fly
.railway
.render
.koyeb.yaml
.config/scalingo
.config/clever-cloud
.platformsh
.upsun-cli
.cf
.bosh
.config/netlify
.netlify/config.json
.local/share/com.vercel.cli
.config/com.vercel.cli
.now/auth.json
.vercel/auth.json
.config/configstore
.config/heroku
.config/supabase
.supabase/access-token
.config/planetscale
.config/turso
.config/neonctl
.config/xata
.upstash.json
.convex
.appwrite
.hasura
.cloudflared
.config/.wrangler
.wrangler/config
.config/fastly
.edgerc
.akamai-cli
.config/encore
.config/doppler
.doppler
.infisical
.config/infisical
.config/hcp
.s3cfg
.mc/config.json
.mcli/config.json
.config/rclone
.rclone.conf
.b2_account_info
.config/b2
.config/kopia
.config/borg
.config/restic
.config/Nextcloud
.config/onedrive
.dropbox
.gdrive
.config/gdrive3
.gcalcli_oauth
.config/gcalcli
.clasprc.json
.config/gspread
.config/stripe
.config/twilio-cli
.twilio-cli
.config/shopify
.config/sanity
.contentfulrc.json
.config/auth0
.config/algolia
"""
PACKAGES = """
.npmrc
.config/pnpm/rc
.config/pnpm/auth.ini
.local/share/pnpm/auth.ini
.yarnrc.yml
.bunfig.toml
.pypirc
.config/pypoetry/auth.toml
Library/Application Support/pypoetry/auth.toml
Library/Preferences/pypoetry/auth.toml
.local/share/uv/credentials
.config/uv/credentials
.continuum
.config/binstar
.cargo/credentials*
.gem/credentials
.local/share/gem/credentials
.config/composer/auth.json
.composer/auth.json
.m2/settings*.xml
.gradle/gradle.properties
.ivy2/.credentials
.sbt/.credentials
.sbt/*/.credentials
.config/coursier/credentials.properties
.nuget/NuGet/NuGet.Config
.config/NuGet/NuGet.Config
.hex
.config/hex
.pub-cache/credentials.json
.config/dart/pub-credentials.json
.luarocks/upload_config.lua
.pause
.config/cachix
.config/nix/netrc
.jfrog
.config/jfrog
.Renviron
.cabal/config
.config/cabal/config
.opam/plugins/opam-publish
.config/osc
.oscrc
.config/copr
.dput.cf
.koji
.fedora*.cache
.launchpadlib
.local/share/snapcraft
.config/snapcraft
"""
CONTAINERS_AND_INFRASTRUCTURE = """
.docker/config.json
.docker/contexts
.docker/run
.docker/desktop
.dockercfg
.colima
.config/containers/auth.json
.config/helm
.regctl/config.json
.kube
.minikube
.crc
.talos
.config/k3d
.config/argocd
.argocd
.config/tanzu
.rancher
.krew/receipts
.vault-token
.vault_pass*
.consul-token
.nomad-token
.boundary
.terraform.d
.terraformrc
.tofurc
.pulumi/credentials.json
.pulumi
.config/infracost
.spacelift
.serverlessrc
.config/serverless
.cdk.json
.chef
.puppetlabs
.ansible/galaxy_token
.ansible_galaxy
.ansible/.vault*
.vagrant.d/data/vagrant_login_token
.vagrant.d/insecure_private_key
.config/packer
.packer.d
.config/sops
Library/Application Support/sops
.config/age
.age
.step
.tsh
.acme.sh
.lego
.config/letsencrypt
.local/share/mkcert
Library/Application Support/mkcert
.local/share/caddy
.config/ngrok
.ngrok2
Library/Application Support/ngrok
.mitmproxy
"""
HOSTS_OF_CODE_AND_CI = """
.git-credentials
.config/git/credentials
.git-credential-cache
.cache/git/credential
.gcm
.gitcookies
.config/gh
.config/hub
.config/glab-cli
.config/tea
.config/lab
.lab
.config/graphite
.graphite_user_config
.arcrc
.reviewboardrc
.p4tickets
.p4trust
.cvspass
.subversion/auth
.bazaar/authentication.conf
.config/breezy/authentication.conf
.fossil
.config/fossil.db
.gist
.circleci/cli.yml
.travis/config.yml
.config/bk.yaml
.buildkite-agent
.flyrc
.gitlab-runner/config.toml
.actrc
.config/act/actrc
.config/jenkins_jobs
.config/woodpecker
.config/dagger
.sentryclirc
.dogrc
.newrelic
.splunkrc
.sonar/user.properties
.transifexrc
.jira.d
.config/.jira
.config/jira
.todoist.config.json
.config/todoist
.wakatime.cfg
.fastlane
.appstoreconnect
.android/adbkey
.expo/state.json
"""
MODELS_AND_NOTEBOOKS = """
.claude/.credentials.json
.claude.json
.codex/auth.json
.gemini/oauth_creds.json
.gemini/.env
.gemini/google_accounts.json
.qwen/oauth_creds.json
.config/openai
.openai
.config/anthropic
.anthropic
.cohere
.config/cohere
.config/replicate
.config/github-copilot
.copilot
.codeium
.tabnine
.local/share/opencode/auth.json
.local/share/crush
.local/share/amp/secrets.json
.config/goose
.config/aichat
.config/shell_gpt
.config/mods
.config/fabric
.config/io.datasette.llm
Library/Application Support/io.datasette.llm
.continue/.env
.aider.conf.yml
.config/Cursor
.cursor/auth.json
.config/Code/User/globalStorage
.config/code-server
.vscode-cli
.ollama/id_ed25519
.huggingface
.cache/huggingface/token
.cache/huggingface/stored_tokens
.kaggle
.config/kaggle
.config/wandb
.comet.config
.neptune
.clearml.conf
clearml.conf
.ngc
.modal.toml
.lightning
.runpod
.lambda_cloud
.paperspace
.vast_api_key
.config/vastai
.anyscale
.databrickscfg
.databricks
.snowflake
.snowsql
.config/snowflake
.dbt/profiles.yml
.local/share/jupyter/runtime
.jupyter/*.json
.ipython/profile_*/security
.ipython/profile_*/history.sqlite
"""
DATABASES = """
.pgpass
.pg_service.conf
.my.cnf
.mylogin.cnf
.myclirc
.mongorc.js
.mongosh
.mongodb
.config/mongodb
.config/mongocli
.config/atlascli
.dbshell
.rediscli_history
.rediscli_auth
.clickhouse-client
.cassandra
.influxdbv2
.cockroach-certs
.neo4j
.odbc.ini
.usqlpass
.usql_history
.sqlcl
.local/share/DBeaverData
.dbvis
.azuredatastudio
.config/beekeeper-studio
"""
MAIL_AND_CHAT = """
.thunderbird
.mutt
.muttrc
.neomuttrc
.config/mutt
.config/neomutt
.msmtprc
.config/msmtp
.mbsyncrc
.isyncrc
.config/isyncrc
.offlineimaprc
.config/offlineimap
.fetchmailrc
.getmail
.config/getmail
.mailrc
.esmtprc
.config/himalaya
.config/aerc
.config/evolution
.local/share/evolution
.purple
.weechat
.config/weechat
.irssi
.config/irssi
.config/hexchat
.config/Signal
.config/Slack
.slack
.config/discord
.config/Element
.config/TelegramDesktop
.local/share/TelegramDesktop
.config/Microsoft
.config/teams
.zuliprc
.twurlrc
.trc
.config/toot
.config/obs-studio
"""
PASSWORDS_AND_KEYS = """
.ssh
.putty
.config/putty
.gnupg
.netrc
_netrc
.authinfo*
.password-store
.config/1Password
.config/op
.op
.config/Bitwarden
.config/Bitwarden CLI
.config/keepassxc
.config/KeePass
.lastpass
.config/lpass
.local/share/lpass
.config/rbw
.local/share/rbw
.config/gopass
.local/share/gopass
.config/Enpass
.local/share/Enpass
.config/Authy Desktop
.google_authenticator
.2fa
.config/Yubico
.keychain
.pki
.cert
.local/share/keyrings
.local/share/kwalletd
.kde/share/apps/kwallet
.gnome2/keyrings
.local/share/python_keyring
.config/python_keyring
.credentials
.config/agent
.config/Termius
.config/remmina
.local/share/remmina
.vnc/passwd
.config/tigervnc/passwd
.config/filezilla
.filezilla
.config/FileZilla
.local/share/lftp
.ncftp
.smbcredentials
.ftpconfig
.config/teamviewer
.local/share/networkmanagement
.config/openvpn
.openvpn
.config/nordvpn
.config/protonvpn
.config/Mullvad VPN
.config/openfortivpn
.cisco
.Xauthority
.ICEauthority
.pulse-cookie
.config/pulse/cookie
.config/Postman
.postman
.config/Insomnia
.httpie/sessions
.config/httpie/sessions
.msf4
.BurpSuite
.config/syncthing
.local/state/syncthing
.bitcoin
.litecoin
.dogecoin
.monero
.electrum
.ethereum
.config/solana
.near-credentials
.foundry/keystores
.brownie/accounts
.sui
.aptos
.config/Exodus
.config/Ledger Live
"""
BROWSERS = """
.mozilla
.librewolf
.waterfox
.floorp
.zen
.tor-browser
.local/share/torbrowser
.config/google-chrome*
.config/chromium
.config/BraveSoftware
.config/microsoft-edge*
.config/opera*
.config/vivaldi*
.config/qutebrowser
.local/share/qutebrowser
.local/share/epiphany
.var/app
snap/firefox
snap/chromium
snap/thunderbird
snap/bitwarden
Library/Application Support/Google/Chrome
Library/Application Support/Firefox
Library/Application Support/BraveSoftware
Library/Application Support/Microsoft Edge
Library/Application Support/Chromium
Library/Application Support/Vivaldi
Library/Application Support/Arc
Library/Application Support/com.operasoftware.Opera
Library/Application Support/1Password
Library/Application Support/Bitwarden
Library/Application Support/Slack
Library/Application Support/Signal
Library/Application Support/discord
Library/Application Support/Code/User/globalStorage
Library/Application Support/Cursor
Library/Application Support/com.vercel.cli
Library/Application Support/Postman
Library/Application Support/rclone
Library/Group Containers
Library/Safari
Library/Keychains
Library/Cookies
Library/Messages
Library/Mail
"""
HISTORIES = """
.bash_history
.zsh_history
.zhistory
.histfile
.sh_history
.ksh_history
.local/share/fish/fish_history
.config/fish/fish_history
.local/share/atuin
.config/nushell/history*
.local/share/powershell/PSReadLine
.local/state/bash/history
.local/state/zsh/history
.local/share/zsh/history
.xonsh_history
.local/share/xonsh
.python_history
.local/state/python_history
.node_repl_history
.psql_history
.mysql_history
.mariadb_history
.sqlite_history
.duckdb_history
.influx_history
.irb_history
.pry_history
.local/share/pry/pry_history
.julia/logs/repl_history.jl
.Rhistory
.php_history
.ghc/ghci_history
.scala_history
.local/share/nix/repl-history
.octave_hist
.gdb_history
.lldb/lldb-widehistory
.lesshst
.viminfo
.local/state/nvim/shada
"""

PLACES = tuple(
    line
    for table in (
        CLOUDS, PACKAGES, CONTAINERS_AND_INFRASTRUCTURE, HOSTS_OF_CODE_AND_CI, MODELS_AND_NOTEBOOKS,
        DATABASES, MAIL_AND_CHAT, PASSWORDS_AND_KEYS, BROWSERS, HISTORIES,
    )
    for line in table.split("\n")
    if line
)  # fmt: skip

ONLY_IN_HOME = (
    ".bundle/config", ".condarc", ".config/pip/pip.conf", ".pip/pip.conf", "Library/Application Support/pip/pip.conf", ".hgrc",  # noqa: E501
    ".config/nix/nix.conf", ".history", ".config/uv/uv.toml",
)  # fmt: skip
"""Files that may hold a password in a home folder but are ordinary project files. They stay visible
in a workspace.
"""

_Piece: TypeAlias = "str | re.Pattern[str]"


def names_a_place(folded: str) -> bool:
    """True if a normalised path in lower case is one of `PLACES` or lies below one, wherever it
    begins.
    """
    names = folded.split("/")
    exact, patterns, any_pattern = _by_first_name()
    if exact.keys().isdisjoint(names) and any_pattern.search(folded) is None:
        return False
    for i, name in enumerate(names):
        candidates = [
            *exact.get(name, ()),
            *(pattern for pattern in patterns if _fits(pattern[0], name)),
        ]
        if any(
            len(names) - i >= len(place) and all(map(_fits, place, names[i:]))
            for place in candidates
        ):
            return True
    return False


def _fits(piece: _Piece, name: str) -> bool:
    return piece == name if isinstance(piece, str) else piece.fullmatch(name) is not None


@lru_cache(maxsize=1)
def _by_first_name() -> tuple[
    dict[str, list[tuple[_Piece, ...]]], list[tuple[_Piece, ...]], re.Pattern[str]
]:
    """Return the places by their first name, those whose first name is a pattern, and a pattern
    that finds any of these names in a path.
    """
    exact: dict[str, list[tuple[_Piece, ...]]] = {}
    patterns: list[tuple[_Piece, ...]] = []
    for line in PLACES:
        pieces = tuple(
            re.compile(wildcards(name, "[^/]")) if "*" in name else name
            for name in line.casefold().split("/")
        )
        exact.setdefault(pieces[0], []).append(pieces) if isinstance(
            pieces[0], str
        ) else patterns.append(pieces)
    first_names = {piece.pattern for piece, *_ in patterns if isinstance(piece, re.Pattern)}
    return exact, patterns, re.compile("(?:^|/)(?:" + "|".join(sorted(first_names)) + ")(?:/|$)")
