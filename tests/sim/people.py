"""The people of a simulated world: a user with jobs, a kubelet with pods, and somebody who deletes pods.

In: a random source, a site without faults. Out: what they do to the API server, until the world is to come to rest.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Any

from controller.kube import ApiError
from controller.model.names import JOB_NAME_LABEL
from controller.scenario.kubelet import SIGTERM_CODE
from controller.scenario.model import PodReport
from controller.scenario.site import Site
from controller.scenario.world import Held

Json = dict[str, Any]
NAMESPACE = "team"
CODES = [0, 0, 0, 1, 2, 137, 137, 143, 255]
POLICIES = ["Never", "OnFailure", "Always", "ExitCode", "ExitCode"]


class People:
    """Everybody but the controller."""

    def __init__(self, site: Site, luck: random.Random, job_count: int) -> None:
        self._site = site
        self._luck = luck
        self._job_count = job_count
        self._is_ending = False
        self._restarts: dict[str, int] = {}

    def come_to_rest(self) -> None:
        """No more edits and accidents; whatever runs ends well soon."""
        self._is_ending = True

    async def use(self) -> None:
        """The user's life: jobs, edits, deletions, spread over some minutes."""
        luck = self._luck
        for number in range(self._job_count):
            await asyncio.sleep(luck.uniform(0, 20))
            await self._site.create_job(self._job(f"job-{number}"))
        while not self._is_ending:
            await asyncio.sleep(luck.uniform(2, 40))
            jobs = (await self._site.look()).of_kind("TFJob")
            if not jobs or self._is_ending:
                continue
            job = luck.choice(jobs)
            with suppress(ApiError):
                if luck.random() < 0.06:
                    await self._site.delete_job(job)
                else:
                    await self._site.edit_job(job, {"spec": self._edit(job)})

    async def resume_all(self) -> None:
        """What is suspended runs again, so that the world can come to its end."""
        for job in (await self._site.look()).of_kind("TFJob"):
            with suppress(ApiError):
                await self._site.edit_job(job, {"spec": {"runPolicy": {"suspend": False}}})

    async def keep_nodes(self) -> None:
        """The kubelet's life."""
        while True:
            await asyncio.sleep(self._luck.uniform(2.0, 10.0) if self._is_ending else self._luck.uniform(0.2, 2.0))
            world = await self._site.look()
            for pod in world.of_kind("Pod"):
                if JOB_NAME_LABEL in (pod.metadata.get("labels") or {}):
                    with suppress(ApiError):
                        await self._tend(pod)

    async def _tend(self, pod: Held) -> None:
        luck = self._luck
        chance = luck.random()
        if pod.is_terminating:
            if chance < 0.5:
                return
            if pod.phase == "Running" and luck.random() < 0.5:
                code = luck.choice([0, SIGTERM_CODE, 137])
                await self._site.report(pod, PodReport(phase="Succeeded" if code == 0 else "Failed", exit_code=code))
            world = await self._site.look()
            await self._site.tend(world, set(), holds_deleted=False)
        elif pod.phase == "Pending":
            if self._is_ending or chance < 0.6:
                await self._site.report(pod, PodReport(phase="Running"))
        elif pod.phase == "Running":
            await self._run(pod, chance)
        elif chance < 0.03 and not self._is_ending:
            # Somebody tidies up.
            await self._site.vanish(pod)

    async def _run(self, pod: Held, chance: float) -> None:
        luck = self._luck
        if self._is_ending:
            await self._site.report(pod, PodReport(phase="Succeeded", exit_code=0))
        elif chance < 0.03:
            await self._site.delete_pod(pod)
            await asyncio.sleep(luck.uniform(0.1, 5))
            await self._let_go(pod.uid)
        elif chance < 0.04:
            await self._site.vanish(pod)
        elif chance < 0.06:
            await self._site.report(pod, PodReport(phase="Failed", pod_reason="Evicted"))
        elif chance < 0.10 and pod.body["spec"].get("restartPolicy") != "Never":
            count = self._restarts[pod.uid] = self._restarts.get(pod.uid, 0) + 1
            code = luck.choice([1, 137])
            waiting = luck.choice(["", "CrashLoopBackOff"])
            await self._site.report(pod, PodReport(restart_count=count, last_exit_code=code, waiting=waiting))
        elif chance < 0.20:
            code = luck.choice(CODES)
            if pod.body["spec"].get("restartPolicy") == "Never" or code == 0:
                phase = "Succeeded" if code == 0 else "Failed"
                await self._site.report(pod, PodReport(phase=phase, exit_code=code))

    async def _let_go(self, uid: str) -> None:
        """A pod that somebody deleted has stopped, one way or another."""
        for pod in (await self._site.look()).of_kind("Pod"):
            if pod.uid == uid:
                if not pod.has_ended and self._luck.random() < 0.5:
                    await self._site.report(pod, PodReport(phase="Failed", exit_code=SIGTERM_CODE))
                await self._site.vanish(pod)

    def _job(self, name: str) -> Json:
        luck = self._luck
        version = luck.choice(["v1", "v1alpha2"])
        specs: Json = {}
        if luck.random() < 0.6:
            specs[luck.choice(["Chief", "Master"])] = self._replica(1)
        if luck.random() < 0.5:
            specs["PS"] = self._replica(luck.randint(1, 2))
        if luck.random() < 0.8 or not specs:
            specs["Worker"] = self._replica(luck.randint(1, 3))
        policy: Json = {"cleanPodPolicy": luck.choice(["All", "Running", "None"])}
        if luck.random() < 0.4:
            policy["backoffLimit"] = luck.randint(0, 3)
        if luck.random() < 0.2:
            policy["activeDeadlineSeconds"] = luck.randint(20, 200)
        if luck.random() < 0.2:
            policy["ttlSecondsAfterFinished"] = luck.randint(0, 60)
        if luck.random() < 0.1:
            policy["suspend"] = True
        spec: Json = {"runPolicy": policy, "tfReplicaSpecs": specs}
        if luck.random() < 0.2:
            spec["successPolicy"] = "AllWorkers"
        return {
            "apiVersion": f"kubeflow.org/{version}",
            "kind": "TFJob",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": spec,
        }

    def _replica(self, count: int) -> Json:
        container = {"name": "tensorflow", "image": "example/train:1"}
        return {
            "replicas": count,
            "restartPolicy": self._luck.choice(POLICIES),
            "template": {"spec": {"containers": [container]}},
        }

    def _edit(self, job: Held) -> Json:
        luck = self._luck
        what = luck.random()
        if what < 0.35:
            return {"runPolicy": {"suspend": luck.random() < 0.5}}
        if what < 0.7 and "Worker" in job.body["spec"]["tfReplicaSpecs"]:
            return {"tfReplicaSpecs": {"Worker": {"replicas": luck.randint(1, 4)}}}
        if what < 0.85:
            return {"runPolicy": {"cleanPodPolicy": luck.choice(["All", "Running", "None"])}}
        return {"runPolicy": {"backoffLimit": luck.randint(0, 4)}}
