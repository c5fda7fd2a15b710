"""Options that several networks of the zoo share."""

from dataclasses import dataclass
from typing import Annotated

from trainload.checked import Bounds
from trainload.workload.graph.draft import GraphDraft

Classes = Annotated[int, Bounds(low=2, high=10**6)]
Channels = Annotated[int, Bounds(low=1, high=10**4)]
Side = Annotated[int, Bounds(low=1, high=10**5)]
Rate = Annotated[float, Bounds(low=0, below=1)]
Width = Annotated[int, Bounds(low=1, high=10**5)]


@dataclass(frozen=True, kw_only=True)
class ImageOptions:
    """Images in, classes out; the defaults are ImageNet's."""

    classes: Classes = 1000
    image_channels: Channels = 3
    image_height: Side = 224
    image_width: Side = 224

    def draft(self) -> GraphDraft:
        """A graph that has its input layer."""
        return GraphDraft((self.image_channels, self.image_height, self.image_width))


@dataclass(frozen=True, kw_only=True)
class DroppingImageOptions(ImageOptions):
    """Images in, classes out, with dropout before the classifier; 0 leaves its layers out."""

    dropout: Rate = 0.5
