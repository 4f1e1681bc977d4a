"""Settings and their sources. Nothing here prints or connects.

keys.py defines the keys, readers.py the accepted values, and values.py the typed result. places.py
locates files; file.py and document.py read them; trust.py decides whether a project's files apply.
layers.py merges the sources, endpoint.py resolves how to reach a provider, and given.py completes a
program's own configuration. Entry points: `load`.

    file_settings.py     settings of one file, each with its line
    presets.py           providers that work by name
    tokens.py            tokens in place of keys, and those of Bedrock and Vertex AI
    environment.py       settings and secrets of the environment, and of options
    checks.py            checks of the settings as a whole
    workspace.py         restrictions on the settings of a workspace
    trust_store.py       the store of trusted projects

    sections.py          sections of the configuration as typed values
    serving.py           settings of the service, queues, workers and schedules
    serving_readers.py   values of those settings
    model_profile.py     known limits and abilities of a model

    rules.py             permission rules: allow, ask, deny
    rule.py              one permission rule as text
    command_matching.py  commands that a rule matches
    hosts.py             hosts that commands may reach

    changing.py          changes of the user's own file
    editing.py           edits of YAML text that leave the rest unchanged

    plugins.py           entry points of installed distributions
"""

from __future__ import annotations

from treadle._internal.redaction import Secret as Secret
from treadle.config.endpoint import Endpoint as Endpoint
from treadle.config.environment import FLAGS as FLAGS
from treadle.config.given import completed as completed
from treadle.config.layers import PROBLEMS_MAX as PROBLEMS_MAX
from treadle.config.layers import Layers as Layers
from treadle.config.layers import load as load
from treadle.config.layers import own_secrets as own_secrets
from treadle.config.places import ConfigFile as ConfigFile
from treadle.config.places import Project as Project
from treadle.config.places import config_files as config_files
from treadle.config.places import home as home
from treadle.config.places import project_of as project_of
from treadle.config.sections import Models as Models
from treadle.config.sections import Permissions as Permissions
from treadle.config.sections import Price as Price
from treadle.config.tokens import AccessToken as AccessToken
from treadle.config.tokens import bedrock_tokens as bedrock_tokens
from treadle.config.tokens import vertex_tokens as vertex_tokens
from treadle.config.trust import Trust as Trust
from treadle.config.trust import trust_of as trust_of
from treadle.config.values import Config as Config
from treadle.config.values import Origin as Origin
from treadle.config.values import Provider as Provider
