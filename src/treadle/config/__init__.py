"""Settings: which there are (keys.py), what each may be (readers.py), their values (values.py),
where files lie (places.py) and how they are read (file.py, document.py), whether a project's may
count (trust.py), how a provider is reached (endpoint.py), the one place that knows which source
wins (layers.py), and a program's own (given.py). Nothing here prints or connects. Entry: `load`.

    changing.py   changing the user's own file
    hosts.py      hosts that commands may reach
    rules.py      what a user allows, wants to be asked about, and denies
    workspace.py  what a workspace's file may say of a key

    model_profile.py  what one model takes and can do, as far as anybody knows
"""

from __future__ import annotations

from treadle._internal.redaction import Secret as Secret
from treadle.config.endpoint import Endpoint as Endpoint
from treadle.config.given import completed as completed
from treadle.config.layers import FLAGS as FLAGS
from treadle.config.layers import PROBLEMS_MAX as PROBLEMS_MAX
from treadle.config.layers import Layers as Layers
from treadle.config.layers import load as load
from treadle.config.layers import own_secrets as own_secrets
from treadle.config.places import ConfigFile as ConfigFile
from treadle.config.places import Project as Project
from treadle.config.places import config_files as config_files
from treadle.config.places import home as home
from treadle.config.places import project_of as project_of
from treadle.config.trust import Trust as Trust
from treadle.config.trust import trust_of as trust_of
from treadle.config.values import Config as Config
from treadle.config.values import Models as Models
from treadle.config.values import Origin as Origin
from treadle.config.values import Permissions as Permissions
from treadle.config.values import Price as Price
from treadle.config.values import Provider as Provider
