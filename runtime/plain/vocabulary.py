"""The vocabulary that modules generated for plain Python import as `rt`: the same words over Python objects."""

from aggloom.runtime.handlers.columns import Kernels as Kernels
from aggloom.runtime.handlers.handler import AWAY_FROM_ZERO as AWAY_FROM_ZERO
from aggloom.runtime.plain.backend import Handler as Handler
from aggloom.runtime.plain.backend import NamespaceHandler as NamespaceHandler
from aggloom.runtime.plain.floats import *
from aggloom.runtime.plain.user import *
from aggloom.runtime.plain.kinds import *
from aggloom.runtime.plain.values import *
