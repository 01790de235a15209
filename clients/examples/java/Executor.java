import clawjob.v1.ExecutorServiceGrpc;
import clawjob.v1.Session.*;
import clawjob.v1.Types.*;
import com.google.protobuf.ByteString;
import com.google.protobuf.Timestamp;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * An executor without an SDK: plain gRPC, and the classes that protoc makes from proto/.
 *
 * <p>It offers the handlers "echo" and "sleep", dials again when the connection breaks, keeps each
 * result until it is stored, and says Goodbye on SIGTERM. What an SDK would add: logs, progress,
 * timeouts, a drain that waits for handlers, and the memory of attempts that are long over.
 */
public final class Executor {
    /** What a handler does; it is interrupted when its run is to stop. */
    interface Handler {
        ByteString handle(ByteString params) throws Exception;
    }

    static final int SLOTS = 4;
    static final long LONGEST_WAIT_MS = 10_000;
    static final Pattern MS = Pattern.compile("\"ms\"\\s*:\\s*(\\d+)");
    static final Map<String, Handler> HANDLERS = Map.of("echo", params -> params, "sleep", Executor::sleep);
    static final Set<Status.Code> FOR_GOOD = Set.of(Status.Code.UNAUTHENTICATED, Status.Code.PERMISSION_DENIED,
            Status.Code.INVALID_ARGUMENT, Status.Code.FAILED_PRECONDITION, Status.Code.UNIMPLEMENTED);

    static ByteString sleep(ByteString params) throws Exception {
        Matcher ms = MS.matcher(params.toStringUtf8());
        Thread.sleep(ms.find() ? Long.parseLong(ms.group(1)) : 0);
        return ByteString.copyFromUtf8("\"slept\"");
    }

    /** An attempt that runs here, or has ended and waits for the ack of its result. */
    static final class Held {
        AttemptRef ref;
        Timestamp start = now();
        Thread thread;
        boolean stopped;
        RunResult.Builder result;

        AttemptStatus status() {
            return AttemptStatus.newBuilder().setRef(ref).setStartTime(start).setFinished(result != null).build();
        }
    }

    final String instance = UUID.randomUUID().toString();
    final Map<String, Held> attempts = new LinkedHashMap<>();
    String resumeToken = "";
    long lastCommand;
    volatile boolean leaving;
    StreamObserver<SessionRequest> up; // of the session that is open, else null

    synchronized void send(SessionRequest.Builder frame) {
        if (up != null) {
            up.onNext(frame.build());
        }
    }

    static SessionRequest.Builder frame() {
        return SessionRequest.newBuilder();
    }

    static Timestamp now() {
        Instant now = Instant.now();
        return Timestamp.newBuilder().setSeconds(now.getEpochSecond()).setNanos(now.getNano()).build();
    }

    static String key(AttemptRef ref) {
        return ref.getRunId() + "/" + ref.getAttempt();
    }

    int free() {
        return SLOTS - (int) attempts.values().stream().filter(held -> held.result == null).count();
    }

    synchronized Hello hello() {
        Hello.Builder hello = Hello.newBuilder().setProtocolMajor(1).setApp(System.getenv("CLAWJOB_APP"))
                .setExecutorId(System.getenv().getOrDefault("CLAWJOB_EXECUTOR_ID", "java-1"))
                .setInstanceId(instance).setResumeToken(resumeToken).setSlots(SLOTS)
                .setSdk(SdkInfo.newBuilder().setLanguage("java").setRuntimeVersion(Runtime.version().toString()))
                .setLastCommandSeq(lastCommand);
        HANDLERS.keySet().forEach(name -> hello.addHandlers(clawjob.v1.Session.Handler.newBuilder().setName(name)));
        attempts.values().forEach(held -> hello.addAttempts(held.status()));
        return hello.build();
    }

    /** Says what is held here, every interval, until the session has ended: the scheduler compares. */
    void beat(long intervalMs, CountDownLatch ended) {
        try {
            for (long number = 1; !ended.await(intervalMs, TimeUnit.MILLISECONDS); number++) {
                synchronized (this) {
                    Heartbeat.Builder beat = Heartbeat.newBuilder().setSeq(number).setFreeSlots(free())
                            .setLastCommandSeq(lastCommand);
                    attempts.values().forEach(held -> beat.addAttempts(held.status()));
                    send(frame().setHeartbeat(beat));
                }
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Answers before the handler's first line runs; what is known already is not started again. */
    synchronized void run(RunCommand command) {
        lastCommand = command.getCommandSeq();
        Held held = attempts.get(key(command.getRef()));
        RunAck.Builder ack = RunAck.newBuilder().setRef(command.getRef());
        if (held != null) {
            held.ref = command.getRef();
            send(frame().setRunAck(ack.setStatus(RunAck.Status.STATUS_DUPLICATE)));
            report(held);
        } else if (!HANDLERS.containsKey(command.getHandler())) {
            ack.setStatus(RunAck.Status.STATUS_REJECTED).getFailureBuilder().setCode("UNKNOWN_HANDLER");
            send(frame().setRunAck(ack));
        } else if (leaving || free() == 0) {
            send(frame().setRunAck(ack.setStatus(leaving ? RunAck.Status.STATUS_DRAINING : RunAck.Status.STATUS_BUSY)));
        } else {
            Held begun = new Held();
            begun.ref = command.getRef();
            begun.thread = new Thread(() -> work(command, begun));
            attempts.put(key(command.getRef()), begun);
            send(frame().setRunAck(ack.setStatus(RunAck.Status.STATUS_ACCEPTED)));
            begun.thread.setDaemon(true);
            begun.thread.start();
        }
    }

    /** Runs the handler and keeps what became of it. */
    void work(RunCommand command, Held held) {
        RunResult.Builder result = RunResult.newBuilder().setStartTime(held.start);
        try {
            ByteString output = HANDLERS.get(command.getHandler()).handle(command.getParams().getData());
            result.setOutcome(Outcome.OUTCOME_SUCCEEDED)
                    .setOutput(Payload.newBuilder().setContentType("application/json").setData(output));
        } catch (Exception error) {
            result.setOutcome(held.stopped ? Outcome.OUTCOME_CANCELED : Outcome.OUTCOME_FAILED).getFailureBuilder()
                    .setCode(held.stopped ? "STOPPED" : "HANDLER_ERROR").setMessage(String.valueOf(error.getMessage()))
                    .setType(error.getClass().getName());
        }
        Timestamp end = now();
        long nanos = (end.getSeconds() - held.start.getSeconds()) * 1_000_000_000L + end.getNanos() - held.start.getNanos();
        result.setFinishTime(end).getDurationBuilder().setSeconds(nanos / 1_000_000_000L)
                .setNanos((int) (nanos % 1_000_000_000L));
        synchronized (this) {
            held.result = result;
            report(held);
        }
    }

    void report(Held held) {
        if (held.result != null) {
            send(frame().setResult(held.result.setRef(held.ref)));
        }
    }

    synchronized void kill(KillCommand command) {
        lastCommand = Math.max(lastCommand, command.getCommandSeq());
        Held held = attempts.get(key(command.getRef()));
        KillAck.Status status = held == null ? KillAck.Status.STATUS_NOT_FOUND
                : held.result != null ? KillAck.Status.STATUS_FINISHED : KillAck.Status.STATUS_SIGNALED;
        if (status == KillAck.Status.STATUS_SIGNALED) {
            held.stopped = true;
            held.thread.interrupt();
        }
        send(frame().setKillAck(KillAck.newBuilder().setRef(command.getRef()).setStatus(status)));
    }

    synchronized void welcome(Welcome welcome, CountDownLatch ended) {
        System.out.println("welcome to session " + welcome.getSessionId());
        resumeToken = welcome.getResumeToken();
        welcome.getKnownResultsList().forEach(ref -> attempts.remove(key(ref)));
        welcome.getKillsList().forEach(this::kill);
        attempts.values().forEach(this::report);
        com.google.protobuf.Duration interval = welcome.getHeartbeatInterval();
        long ms = interval.getSeconds() * 1000 + interval.getNanos() / 1_000_000;
        Thread beats = new Thread(() -> beat(ms, ended));
        beats.setDaemon(true);
        beats.start();
    }

    synchronized void take(SessionResponse frame, CountDownLatch ended) {
        switch (frame.getFrameCase()) {
            case WELCOME -> welcome(frame.getWelcome(), ended);
            case RUN -> run(frame.getRun());
            case KILL -> kill(frame.getKill());
            case RESULT_ACK -> attempts.remove(key(frame.getResultAck().getRef()));
            case CLOSE -> System.out.println("closed: " + frame.getClose().getMessage());
            default -> { } // an unknown frame is passed over
        }
    }

    /** One session, from its Hello to its end. */
    Status session(ExecutorServiceGrpc.ExecutorServiceStub stub) throws InterruptedException {
        CountDownLatch ended = new CountDownLatch(1);
        AtomicReference<Status> how = new AtomicReference<>(Status.OK);
        StreamObserver<SessionRequest> opened = stub.session(new StreamObserver<>() {
            @Override public void onNext(SessionResponse frame) {
                take(frame, ended);
            }

            @Override public void onError(Throwable error) {
                how.set(Status.fromThrowable(error));
                ended.countDown();
            }

            @Override public void onCompleted() {
                ended.countDown();
            }
        });
        synchronized (this) {
            up = opened;
            send(frame().setHello(hello()));
        }
        ended.await();
        synchronized (this) {
            up = null;
        }
        return how.get();
    }

    void leave() {
        leaving = true;
        synchronized (this) {
            send(frame().setGoodbye(Goodbye.newBuilder().setReason("asked to end")));
            if (up != null) {
                up.onCompleted();
            }
        }
    }

    public static void main(String[] args) throws InterruptedException {
        String endpoint = System.getenv("CLAWJOB_ENDPOINTS").split(",")[0].replaceFirst("^http://", "");
        Metadata metadata = new Metadata();
        metadata.put(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER),
                "Bearer " + System.getenv("CLAWJOB_TOKEN"));
        ManagedChannel channel = ManagedChannelBuilder.forTarget(endpoint).usePlaintext().build();
        var stub = ExecutorServiceGrpc.newStub(channel).withInterceptors(
                MetadataUtils.newAttachHeadersInterceptor(metadata));
        Executor executor = new Executor();
        Runtime.getRuntime().addShutdownHook(new Thread(executor::leave));
        for (long wait = 500; !executor.leaving; wait = Math.min(2 * wait, LONGEST_WAIT_MS)) {
            Status status = executor.session(stub);
            System.out.println("the session ended: " + status);
            if (FOR_GOOD.contains(status.getCode())) {
                System.exit(1);
            }
            Thread.sleep(ThreadLocalRandom.current().nextLong(wait));
        }
    }
}
