"""Settings: which there are (keys.py), their values (values.py), how a file is read (file.py, document.py), how a provider is reached
(endpoint.py), and the one place that knows which source wins (layers.py). Nothing here prints or connects. Entry: `load`.
"""

from __future__ import annotations

from treadle.config.endpoint import Endpoint as Endpoint
from treadle.config.layers import FLAGS as FLAGS
from treadle.config.layers import PROBLEMS_MAX as PROBLEMS_MAX
from treadle.config.layers import ConfigFile as ConfigFile
from treadle.config.layers import Layers as Layers
from treadle.config.layers import config_files as config_files
from treadle.config.layers import home as home
from treadle.config.layers import load as load
from treadle.config.values import Config as Config
from treadle.config.values import Origin as Origin
from treadle.config.values import Price as Price
from treadle.config.values import Provider as Provider
