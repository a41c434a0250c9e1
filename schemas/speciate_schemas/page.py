"""What the page's HTTP API says: every answer is one of these structs as JSON.

A universe is a set of categories: that of a task, or with `run.universe = "stream"` that of one stream of a task. The
requests about categories name it by the parameters `task` and `stream`.
"""

from typing import Annotated, Literal

import msgspec

from speciate_schemas.config import Strict
from speciate_schemas.events import Assignment, Control, ControlApplied, Rejection

Number = Annotated[int, msgspec.Meta(description="Number of the category.")]
Label = Annotated[str | None, msgspec.Meta(description="Its label; null if it has none.")]
Known = Annotated[bool, msgspec.Meta(description="Whether it came from the support set.")]
Count = Annotated[int, msgspec.Meta(description="Events it has learnt, those of the support set included.")]
Record = Annotated[int, msgspec.Meta(description="Number of the input.")]
Time = Annotated[float | None, msgspec.Meta(description="Seconds since the Unix epoch; null if the event has no time.")]
X = Annotated[float, msgspec.Meta(description="Along the first principal component.")]
Y = Annotated[float, msgspec.Meta(description="Along the second.")]
Shares = Annotated[
    dict[str, float], msgspec.Meta(description="Share of the last seconds spent `busy`, `idle` and `backpressured`.")
]

Condition = Literal["running", "waiting", "restoring", "away", "stopping", "stopped"]


class UniverseSummary(Strict, frozen=True):
    """One set of categories."""

    task: Annotated[int, msgspec.Meta(description="Number of the task, which is that of its partition.")]
    stream: Annotated[str | None, msgspec.Meta(description="Null where all streams of a task share their categories.")]
    categories: Annotated[int, msgspec.Meta(description="Categories there are.")]
    known: Annotated[int, msgspec.Meta(description="Those that came from the support set.")]
    sequence: Annotated[int, msgspec.Meta(description="Number of the next input.")]


class StateView(Strict, frozen=True):
    """How the pipeline is: `/api/state`."""

    version: Annotated[str, msgspec.Meta(description="Of Speciate.")]
    title: Annotated[str, msgspec.Meta(description="What is run, for people.")]
    running: Annotated[bool, msgspec.Meta(description="False for a state that is only looked at.")]
    condition: Annotated[
        Condition,
        msgspec.Meta(
            description="`running` if all is well; `away` while a service is missed, `restoring` while a task takes up "
            "what was left, `waiting` for anything else; `stopping` at the end; `stopped` if it is only looked at."
        ),
    ]
    uncontrollable: Annotated[str, msgspec.Meta(description="Why nothing can be changed by hand; empty if it can.")]
    suggests: Annotated[bool, msgspec.Meta(description="Whether the density can tell what a merge is worth.")]
    unready: Annotated[list[str], msgspec.Meta(description="Why it is not well, a line each; empty when it is.")]
    time: Annotated[float, msgspec.Meta(description="Now, in seconds since the Unix epoch.")]
    seconds: Annotated[float, msgspec.Meta(description="How long it has run.")]
    events_per_second: Annotated[float, msgspec.Meta(description="Over the last seconds.")]
    answered: Annotated[int, msgspec.Meta(description="Inputs answered by this run; of a state, all of them.")]
    assigned: Annotated[
        int, msgspec.Meta(description="Since the very beginning, like the next four: inputs that got a category.")
    ]
    births: Annotated[int, msgspec.Meta(description="Those of them that founded one.")]
    rejected: Annotated[int, msgspec.Meta(description="Inputs that could not be used.")]
    controls: Annotated[int, msgspec.Meta(description="Control events that took effect.")]
    dropped: Annotated[int, msgspec.Meta(description="Inputs that nobody waited for.")]
    lag: Annotated[int | None, msgspec.Meta(description="What the source still holds; null where its end is unknown.")]
    lag_unit: Annotated[str, msgspec.Meta(description="What the source counts in, such as records or bytes.")]
    latency_p50: Annotated[
        float | None, msgspec.Meta(description="Seconds from reading to writing, over the last seconds.")
    ]
    latency_p99: Annotated[float | None, msgspec.Meta(description="The same for all but one of a hundred events.")]
    head_bytes: Annotated[int, msgspec.Meta(description="Memory held by the categories.")]
    stages: Annotated[dict[str, Shares], msgspec.Meta(description="By stage, in the order of the flow.")]
    universes: Annotated[list[UniverseSummary], msgspec.Meta(description="At most 500 of them.")]


class BirthMark(Strict, frozen=True):
    """A category, where it was born."""

    sequence: Record
    category: Number
    label: Label
    time: Time


class TimelineView(Strict, frozen=True):
    """The stream so far in equal parts: `/api/timeline`. Lists have one entry a part."""

    width: Annotated[int, msgspec.Meta(description="Inputs in one part; part n begins with input n · width.")]
    sequence: Annotated[int, msgspec.Meta(description="Number of the next input: where the last part ends so far.")]
    events: Annotated[list[int], msgspec.Meta(description="Assignments.")]
    births: Annotated[list[int], msgspec.Meta(description="Those of them that founded a category.")]
    categories: Annotated[list[int], msgspec.Meta(description="Categories at the end of the part.")]
    margin_low: Annotated[list[float | None], msgspec.Meta(description="10 % of the margins are below, in nats.")]
    margin_middle: Annotated[list[float | None], msgspec.Meta(description="The median margin.")]
    margin_high: Annotated[list[float | None], msgspec.Meta(description="90 % are below.")]
    times: Annotated[list[float | None], msgspec.Meta(description="Time of the last event of the part, if it has one.")]
    marks: Annotated[list[BirthMark], msgspec.Meta(description="The newest births of categories there still are.")]


class ExemplarView(Strict, frozen=True):
    """One event of a category, to stand for it."""

    id: Annotated[str, msgspec.Meta(description="The event's.")]
    stream: Annotated[str, msgspec.Meta(description="The stream it belongs to.")]
    sequence: Record
    time: Time
    thumbnail: Annotated[str | None, msgspec.Meta(description="Where its picture is; null if there is none.")]


class CategoryCard(Strict, frozen=True):
    """One category in brief."""

    id: Number
    label: Label
    known: Known
    count: Count
    seen: Annotated[int, msgspec.Meta(description="Events of the stream that were assigned to it.")]
    born: Annotated[int | None, msgspec.Meta(description="Number of the input that founded it; null if it was known.")]
    born_time: Time
    last_sequence: Annotated[int | None, msgspec.Meta(description="Number of the last input assigned to it.")]
    last_time: Time
    spread: Annotated[
        float | None, msgspec.Meta(description="How wide it is, in the density's own measure; null if it has none.")
    ]
    activity: Annotated[list[int], msgspec.Meta(description="Events in each part of the timeline.")]
    exemplars: Annotated[list[ExemplarView], msgspec.Meta(description="Those with a picture first.")]


class CategoryPage(Strict, frozen=True):
    """Some categories of many: `/api/categories`."""

    total: Annotated[int, msgspec.Meta(description="Categories there are.")]
    matching: Annotated[int, msgspec.Meta(description="Those that the filter and the search let through.")]
    offset: Annotated[int, msgspec.Meta(description="Those that came before these.")]
    categories: Annotated[list[CategoryCard], msgspec.Meta(description="In the order that was asked for.")]


class MemberView(Strict, frozen=True):
    """A member of a category on the plane of its first two principal components."""

    exemplar: ExemplarView
    x: X
    y: Y


class Spot(Strict, frozen=True):
    """Where the centre of a category was."""

    sequence: Record
    x: X
    y: Y


class Ellipse(Strict, frozen=True):
    """Where the next event of a category is expected, on its plane, with some probability."""

    x: Annotated[float, msgspec.Meta(description="Its centre.")]
    y: Annotated[float, msgspec.Meta(description="Its centre.")]
    major: Annotated[float, msgspec.Meta(description="Half the longer axis.")]
    minor: Annotated[float, msgspec.Meta(description="Half the shorter axis.")]
    angle: Annotated[float, msgspec.Meta(description="Of the longer axis against x, in radians.")]
    probability: Annotated[float, msgspec.Meta(description="That the next event lies within.")]


class Neighbour(Strict, frozen=True):
    """A category near another."""

    category: Number
    label: Label
    known: Known
    count: Count
    log_density: Annotated[
        float, msgspec.Meta(description="Of the centre of the category that is looked at under this one, in nats.")
    ]


class SuggestionView(Strict, frozen=True):
    """Two categories that are rather one."""

    keep: Annotated[int, msgspec.Meta(description="Number of the one to keep: the known one, or else the larger.")]
    absorb: Annotated[int, msgspec.Meta(description="Number of the other.")]
    keep_label: Label
    absorb_label: Label
    keep_count: Count
    absorb_count: Count
    log_bayes_factor: Annotated[float, msgspec.Meta(description="In nats; above 0 the events speak for a merge.")]


class CategoryView(Strict, frozen=True):
    """One category: `/api/categories/ID`."""

    card: CategoryCard
    width: Annotated[int, msgspec.Meta(description="Inputs in one part of the activity.")]
    members: Annotated[
        list[MemberView],
        msgspec.Meta(description="A sample; empty if fewer than two are kept, or one cannot be drawn."),
    ]
    explained: Annotated[list[float], msgspec.Meta(description="Share of the members' variance along x and y.")]
    ellipse: Annotated[
        Ellipse | None,
        msgspec.Meta(description="Null if its density has no place for it, or fewer than two events are kept."),
    ]
    ellipse_before: Annotated[
        Ellipse | None,
        msgspec.Meta(
            description="The same of a category that has learnt nothing yet: what a new category begins with."
        ),
    ]
    trail: Annotated[list[Spot], msgspec.Meta(description="How its centre has moved, oldest first.")]
    nearest: Annotated[list[Neighbour], msgspec.Meta(description="Nearest first.")]
    suggestions: Annotated[list[SuggestionView], msgspec.Meta(description="Merges with others, best first, any sign.")]


class Suggestions(Strict, frozen=True):
    """Merges that the events speak for: `/api/suggestions`."""

    suggestions: Annotated[list[SuggestionView], msgspec.Meta(description="Best first.")]
    examined: Annotated[int, msgspec.Meta(description="Categories that were compared with their nearest others.")]


class Told(Strict, frozen=True, gc=False):
    """An answer, and whose it is: the numbers of inputs and categories are those of a task."""

    task: Annotated[int, msgspec.Meta(description="Number of the task that gave it.")]
    answer: Annotated[Assignment | ControlApplied | Rejection, msgspec.Meta(description="As it is in the output.")]


class Tidings(Strict, frozen=True):
    """What has happened since the last message of the stream `/api/events`.

    The first message of a stream has the newest births and control events from before it, a hundred at most of each.
    """

    state: StateView
    births: Annotated[list[Told], msgspec.Meta(description="Oldest first, like the next three.")]
    controls: Annotated[
        list[Told], msgspec.Meta(description="What was changed by hand, and what of that was rejected.")
    ]
    rejections: Annotated[list[Told], msgspec.Meta(description="Of other inputs, the newest few.")]
    assignments: Annotated[list[Told], msgspec.Meta(description="The newest few that were no births.")]
    skipped: Annotated[int, msgspec.Meta(description="Answers that are not listed here; the sink has all.")]


class SessionRequest(Strict, frozen=True):
    """Who asks for a session: the body of a POST to `/session`. The answer has no body, but a cookie."""

    token: Annotated[str, msgspec.Meta(max_length=1024, description="What SPECIATE_PAGE_TOKEN was set to.")]


class ControlRequest(Strict, frozen=True):
    """What is to be changed by hand: the body of a POST to `/api/control`."""

    control: Annotated[Control, msgspec.Meta(description="The control event; its id names it in the answer.")]
    task: Annotated[int, msgspec.Meta(ge=0, description="Number of the task it is for.")] = 0


class ControlSent(Strict, frozen=True):
    """A control event is on its way; its answer comes in `/api/events`, as it does in the output."""

    id: Annotated[str, msgspec.Meta(description="The control event's.")]
    place: Annotated[str, msgspec.Meta(description="Where it was put.")]


class Refused(Strict, frozen=True):
    """Why a request was refused, and what to do."""

    error: Annotated[str, msgspec.Meta(description="In one line.")]
