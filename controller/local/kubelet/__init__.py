"""A kubelet without containers: it runs the commands of pods as processes of this machine, and tells the truth of them.

In: pods, over the Kubernetes API. Out: real exit codes, signals and logs, in the pods' status.
Never: an image. `python` is this Python, a mount is a folder to which paths are led, an address is on 127.0.0.1.
"""

from controller.local.kubelet.kubelet import ProcessKubelet
from controller.local.kubelet.logs import LogReader, LogUnavailable

__all__ = ["LogReader", "LogUnavailable", "ProcessKubelet"]
