"""An executor without an SDK: plain gRPC, and the modules that protoc makes from proto/.

    python -m grpc_tools.protoc -I proto --python_out=gen --grpc_python_out=gen proto/clawjob/v1/*.proto
    PYTHONPATH=gen CLAWJOB_ENDPOINTS=http://127.0.0.1:7700 CLAWJOB_TOKEN=... CLAWJOB_APP=demo \
        python clients/examples/python/executor.py

It offers the handler "greet" over one session and says Goodbye on SIGTERM. What an SDK would add:
dialing again when the connection breaks, logs, progress, and results kept until they are stored.
"""

import json
import os
import platform
import queue
import signal
import threading
import traceback
import uuid

import grpc
from clawjob.v1 import session_pb2 as pb
from clawjob.v1 import session_pb2_grpc, types_pb2

SLOTS = 4


def greet(params, stopped):
    """Greets; a long handler would look at `stopped` now and then."""
    return {"greeting": f"Hello, {params['name']}!"}


HANDLERS = {"greet": greet}


class Session:
    """One stream: frames go up through a queue, frames that come down are taken one by one."""

    def __init__(self):
        self.up = queue.Queue()
        self.lock = threading.Lock()
        self.attempts = {}  # (run, attempt) -> [AttemptStatus, stop signal, result or None]
        self.last_command = 0

    def send(self, **frame):
        self.up.put(pb.SessionRequest(**frame))

    def hello(self):
        self.send(hello=pb.Hello(
            protocol_major=1,
            app=os.environ["CLAWJOB_APP"],
            executor_id=os.environ.get("CLAWJOB_EXECUTOR_ID", "python-1"),
            instance_id=uuid.uuid4().hex,
            handlers=[pb.Handler(name=name) for name in HANDLERS],
            slots=SLOTS,
            sdk=pb.SdkInfo(language="python", runtime_version=platform.python_version(),
                           hostname=platform.node(), pid=os.getpid()),
        ))

    def heartbeat(self, interval, ended):
        """Says every `interval` seconds what is held here: the scheduler reconciles against it."""
        number = 0
        while not ended.wait(interval):
            number += 1
            with self.lock:
                held = [status for status, _, _ in self.attempts.values()]
                self.send(heartbeat=pb.Heartbeat(
                    seq=number, attempts=held, last_command_seq=self.last_command,
                    free_slots=self.free()))

    def free(self):
        return SLOTS - sum(not status.finished for status, _, _ in self.attempts.values())

    def run(self, command):
        """Answers a RunCommand before the handler's first line, then starts the handler."""
        ref, key = command.ref, (command.ref.run_id, command.ref.attempt)
        with self.lock:
            self.last_command = command.command_seq
            known = self.attempts.get(key)
            if known:  # sent again: it must not start twice
                known[0].ref.CopyFrom(ref)
                status = pb.RunAck.STATUS_DUPLICATE
            elif command.handler not in HANDLERS:
                status = pb.RunAck.STATUS_REJECTED
            elif self.free() == 0:
                status = pb.RunAck.STATUS_BUSY
            else:
                status = pb.RunAck.STATUS_ACCEPTED
                held = [pb.AttemptStatus(ref=ref), threading.Event(), None]
                held[0].start_time.GetCurrentTime()
                self.attempts[key] = held
        ack = pb.RunAck(ref=ref, status=status)
        if status == pb.RunAck.STATUS_REJECTED:
            ack.failure.code = "UNKNOWN_HANDLER"
        self.send(run_ack=ack)
        if status == pb.RunAck.STATUS_ACCEPTED:
            threading.Thread(target=self.work, args=(command, held), daemon=True).start()
        elif known and known[2]:
            known[2].ref.CopyFrom(ref)
            self.send(result=known[2])

    def work(self, command, held):
        """Runs the handler and reports what became of it."""
        status, stopped, _ = held
        result = pb.RunResult(start_time=status.start_time)
        try:
            output = HANDLERS[command.handler](json.loads(command.params.data or b"{}"), stopped)
            result.outcome = types_pb2.OUTCOME_SUCCEEDED
            result.output.content_type = "application/json"
            result.output.data = json.dumps(output).encode()
        except Exception as error:
            result.outcome = types_pb2.OUTCOME_CANCELED if stopped.is_set() else types_pb2.OUTCOME_FAILED
            result.failure.code = "HANDLER_ERROR"
            result.failure.message = str(error)
            result.failure.type = type(error).__name__
            result.failure.stack = traceback.format_exc()
        result.finish_time.GetCurrentTime()
        with self.lock:
            status.finished = True
            result.ref.CopyFrom(status.ref)
            held[2] = result
        self.send(result=result)

    def kill(self, command):
        with self.lock:
            self.last_command = command.command_seq
            held = self.attempts.get((command.ref.run_id, command.ref.attempt))
        if held is None:
            status = pb.KillAck.STATUS_NOT_FOUND
        elif held[0].finished:
            status = pb.KillAck.STATUS_FINISHED
        else:
            status = pb.KillAck.STATUS_SIGNALED
            held[1].set()
        self.send(kill_ack=pb.KillAck(ref=command.ref, status=status))

    def goodbye(self, *_):
        self.send(goodbye=pb.Goodbye(reason="asked to end"))
        self.up.put(None)

    def serve(self, stub, token):
        """Until the scheduler ends the stream, which it does after a Goodbye."""
        ended = threading.Event()
        self.hello()  # queued before the call: the scheduler answers after it has read it
        metadata = [("authorization", f"Bearer {token}")]
        for response in stub.Session(iter(self.up.get, None), metadata=metadata):
            kind = response.WhichOneof("frame")
            if kind == "welcome":
                print("welcome to session", response.welcome.session_id)
                interval = response.welcome.heartbeat_interval.ToTimedelta().total_seconds()
                threading.Thread(target=self.heartbeat, args=(interval, ended), daemon=True).start()
            elif kind == "heartbeat_ack":
                print("heartbeat", response.heartbeat_ack.seq, "is known")
            elif kind == "run":
                print("run", response.run.run, "of", response.run.job)
                self.run(response.run)
            elif kind == "kill":
                self.kill(response.kill)
            elif kind == "result_ack":
                ref = response.result_ack.ref
                print("result of", ref.run_id, "is stored")
                with self.lock:
                    self.attempts.pop((ref.run_id, ref.attempt), None)
            elif kind == "close":
                print("closed:", response.close.message)
        ended.set()


def main():
    endpoint = os.environ["CLAWJOB_ENDPOINTS"].split(",")[0].removeprefix("http://")
    session = Session()
    signal.signal(signal.SIGTERM, session.goodbye)
    with grpc.insecure_channel(endpoint) as channel:
        session.serve(session_pb2_grpc.ExecutorServiceStub(channel), os.environ["CLAWJOB_TOKEN"])
    print("ended")


main()
