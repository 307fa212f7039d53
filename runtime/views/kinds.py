"""Every kind of view, by the name of its descriptor (codegen/views/): its functions, and the class of its arrays."""

from typing import Any, Final

from aggloom.runtime.arithmetic.superaccumulator import SpillView
from aggloom.runtime.storage.queued_tree import QueuedTreeView
from aggloom.runtime.storage.tree import TreeView
from aggloom.runtime.views.bits import *
from aggloom.runtime.views.bits import BitsView
from aggloom.runtime.views.ddsketch import *
from aggloom.runtime.views.ddsketch import DDSketchView
from aggloom.runtime.views.hyperloglog import *
from aggloom.runtime.views.hyperloglog import HyperLogLogView
from aggloom.runtime.views.multiset import *
from aggloom.runtime.views.ordered import *
from aggloom.runtime.views.quantiles import *
from aggloom.runtime.views.quantiles import QuantilesView
from aggloom.runtime.views.ranked import *
from aggloom.runtime.views.ranked import RankedView
from aggloom.runtime.views.seen import *
from aggloom.runtime.views.seen import SeenView
from aggloom.runtime.views.sequence import *
from aggloom.runtime.views.sequence import SequenceView
from aggloom.runtime.views.stamped import *
from aggloom.runtime.views.stamped import StampedView

VIEW_TYPES: Final[dict[str, Any]] = {
    "multiset": TreeView,
    "seen": SeenView,
    "ordered": QueuedTreeView,
    "sequence": SequenceView,
    "ranked": RankedView,
    "stamped": StampedView,
    "bits": BitsView,
    "hyperloglog": HyperLogLogView,
    "quantiles": QuantilesView,
    "ddsketch": DDSketchView,
    "spill": SpillView,
}
