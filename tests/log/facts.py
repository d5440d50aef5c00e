"""One example of every fact, action and awkward text, for the tests of what the log keeps of them."""

from __future__ import annotations

from controller.log import NewEvent
from controller.model.actions import (
    Action,
    Because,
    CreatePod,
    CreatePodGroup,
    CreateService,
    DeleteJob,
    DeleteOwned,
    DeletePod,
    DeletePodGroup,
    DeleteService,
    EmitNotice,
    Holder,
    Outcome,
    PatchStatus,
    ReleasePod,
    Result,
    UpdatePodGroup,
)
from controller.model.events import (
    ActionSettled,
    AnyFact,
    ClockJumped,
    Decided,
    GapOpened,
    GapReason,
    JobObserved,
    LeaderElected,
    NoticeObserved,
    Op,
    PodGroupObserved,
    PodObserved,
    ServiceObserved,
    SettingsRecorded,
    Synced,
    TimerFired,
    TimerKind,
)
from controller.model.objects import (
    ContainerState,
    ContainerStatus,
    Notice,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodCondition,
    PodGroup,
    PodSpecFacts,
    PodStatus,
    Reference,
    Running,
    Service,
    Terminated,
    TFJob,
    Waiting,
)
from controller.model.replicas import ReplicaType
from controller.model.settings import CleanPodPolicy, GangScheduler, PolicySettings

NOW = 1_800_000_000_123_456

# What Postgres refuses or shows differently: NUL, half a surrogate pair's look-alike, the escape's own mark, control
# characters, a character beyond the 16-bit plane, quotes and backslashes before an "u0000".
AWKWARD = 'nul \x00, mark \ue000, mark \ue0000000, bell \x07, \U0001f600, "quoted", \\u0000, \\\\u0000, \x7f, é'

ACTIONS: tuple[Action, ...] = (
    CreatePod(ReplicaType.WORKER, 3, 2),
    CreateService(ReplicaType.PS, 0),
    DeletePod("job-worker-0", "uid-1", Because.REPLACED),
    DeleteService("job-ps-0", "uid-2", Because.JOB_ENDED),
    DeleteOwned("pods", Because.DEADLINE),
    ReleasePod("job-worker-1", "uid-3"),
    PatchStatus(True),
    DeleteJob(Because.TTL),
    EmitNotice("Warning", "TFJobFailed", AWKWARD),
    CreatePodGroup(4),
    DeletePodGroup(Because.SUSPENDED),
    UpdatePodGroup("uid-4", 2, GangScheduler.VOLCANO, "c0ffee"),
)

_META = ObjectMeta(
    name="job-worker-0",
    namespace="ns",
    uid="uid-1",
    resource_version="18446744073709551617",
    generation=2,
    creation_timestamp="2026-12-01T10:00:00Z",
    deletion_timestamp="2026-12-01T10:05:00Z",
    deletion_grace_period_seconds=30,
    labels={"training.kubeflow.org/job-name": "job", "zz": "", "a": "b"},
    annotations={"note": AWKWARD},
    owner_references=(OwnerReference("TFJob", "job", "job-uid", "kubeflow.org/v1", True),),
    finalizers=("tfjob.kubeflow.org/end-recorded",),
)
_ENDED = Terminated(137, 9, "OOMKilled", AWKWARD, "2026-12-01T10:00:01Z", "2026-12-01T10:04:00Z")
_POD = Pod(
    metadata=_META,
    spec=PodSpecFacts("Never", "node-1"),
    status=PodStatus(
        phase="Failed",
        reason="Evicted",
        message=AWKWARD,
        start_time="2026-12-01T10:00:00Z",
        conditions=(PodCondition("DisruptionTarget", "True", "Preempted", "by a higher one", "2026-12-01T10:03:00Z"),),
        init_container_statuses=(
            ContainerStatus(
                "init",
                0,
                ContainerState(waiting=Waiting("PodInitializing", "")),
            ),
        ),
        container_statuses=(
            ContainerStatus("tensorflow", 2, ContainerState(terminated=_ENDED), ContainerState(running=Running("x"))),
        ),
    ),
)
_JOB = TFJob(
    metadata=ObjectMeta(name="job", namespace="ns", uid="job-uid", resource_version="7"),
    api_version="kubeflow.org/v1",
    spec={"tfReplicaSpecs": {"Worker": {"replicas": 2, "x": [1.0, 0.1, 1e30, None, True, AWKWARD]}, "PS": {}, "": {}}},
    status={"conditions": [{"type": "Created", "message": AWKWARD}], "n": 9007199254740993},
)

FACTS: tuple[tuple[Op, AnyFact], ...] = (
    (Op.ADDED, JobObserved(_JOB)),
    (Op.SYNC_MODIFIED, JobObserved(TFJob(metadata=_META, status={"n": {}}))),
    (Op.MODIFIED, PodObserved(_POD)),
    (Op.SYNC_DELETED, PodObserved(Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u", resource_version="9")))),
    (Op.ADDED, ServiceObserved(Service(metadata=_META))),
    (Op.DELETED, PodGroupObserved(PodGroup(metadata=_META, status={"phase": "Running", "running": 2}))),
    (
        Op.ADDED,
        NoticeObserved(
            Notice(
                metadata=_META,
                involved_object=Reference("Pod", "ns", "job-worker-0", "uid-1"),
                type="Warning",
                reason="FailedScheduling",
                message=AWKWARD,
                count=3,
                first_timestamp="2026-12-01T10:00:00Z",
                last_timestamp="2026-12-01T10:01:00Z",
                reporting_component="default-scheduler",
            )
        ),
    ),
    (Op.GAP, GapOpened(("pods", "tfjobs"), GapReason.EXPIRED, None, NOW)),
    (Op.SYNCED, Synced(("pods", "tfjobs"))),
    (Op.TIMER, TimerFired(TimerKind.BACKOFF, NOW, ReplicaType.WORKER, 3)),
    (Op.TIMER, TimerFired(TimerKind.DEADLINE, NOW)),
    (Op.DECIDED, Decided(ACTIONS)),
    *(
        (Op.ACTION, ActionSettled(12, ordinal, 1, action, Outcome(Result.DONE, 201, uid="u", resource_version="8")))
        for ordinal, action in enumerate(ACTIONS)
    ),
    (
        Op.ACTION,
        ActionSettled(
            12,
            0,
            2,
            ACTIONS[0],
            Outcome(
                Result.REFUSED,
                409,
                "AlreadyExists",
                AWKWARD,
                retry_after_seconds=1.5,
                holder=Holder("u", "o", "Job", "Running", "2026-12-01T10:00:00Z"),
                status_digest="d",
                spec_hash="00ff",
            ),
        ),
    ),
    (
        Op.SETTINGS,
        SettingsRecorded(PolicySettings(CleanPodPolicy.ALL, GangScheduler.VOLCANO, True, "cluster.example")),
    ),
    (Op.LEADER, LeaderElected(AWKWARD, 3, "0.1.0", 1)),
    (Op.CLOCK, ClockJumped(-7.25, True)),
)


def examples() -> list[NewEvent]:
    """Every fact as an event that can be committed, each an object of its own."""
    return [
        NewEvent(
            op=op,
            fact=fact,
            observed_at=NOW + number,
            namespace="ns",
            name=AWKWARD if number == 1 else f"name-{number}",
            uid=f"uid-{number}",
            resource_version=2**100 + number if isinstance(fact, _OBJECTS) else 0,
            job_uid="job-uid",
            job_name="job",
            key=None if isinstance(fact, _OBJECTS) else f"key/{number}",
        )
        for number, (op, fact) in enumerate(FACTS)
    ]


_OBJECTS = (JobObserved, PodObserved, ServiceObserved, PodGroupObserved, NoticeObserved)
