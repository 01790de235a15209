// An executor without an SDK: plain gRPC, and the messages that @grpc/proto-loader reads from proto/.
//
//     npm ci && CLAWJOB_ENDPOINTS=http://127.0.0.1:7700 CLAWJOB_TOKEN=... CLAWJOB_APP=demo node executor.js
//
// It offers the handlers "echo" and "sleep", dials again when the connection breaks, keeps each result
// until it is stored, and says Goodbye on SIGTERM. What an SDK would add: logs, progress, timeouts, a
// drain that waits for handlers, and the memory of attempts that are long over.

'use strict';

const { randomUUID } = require('node:crypto');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const grpc = require('@grpc/grpc-js');
const { loadSync } = require('@grpc/proto-loader');

const SLOTS = 4;
const LONGEST_WAIT_MS = 10_000;
const FOR_GOOD = new Set(['UNAUTHENTICATED', 'PERMISSION_DENIED', 'INVALID_ARGUMENT', 'FAILED_PRECONDITION',
  'UNIMPLEMENTED'].map((code) => grpc.status[code]));

// A handler takes its params and a signal that says when to stop.
const HANDLERS = {
  echo: async (params) => params,
  sleep: async ({ ms = 0 }, signal) => sleep(ms, 'slept', { signal }),
};

const proto = process.env.CLAWJOB_PROTO ?? path.join(__dirname, '../../../proto');
const contract = grpc.loadPackageDefinition(loadSync('clawjob/v1/session.proto', {
  includeDirs: [proto], keepCase: true, longs: String, enums: String, defaults: true, oneofs: true,
})).clawjob.v1;

const instance = randomUUID();
const attempts = new Map(); // run and attempt -> { ref, start_time, stop, result once it has ended }
let resumeToken = '';
let lastCommand = '0';
let leaving = false;
let stream; // of the session that is open

const key = (ref) => `${ref.run_id}/${ref.attempt}`;
const free = () => SLOTS - [...attempts.values()].filter((held) => !held.result).length;
const send = (frame) => stream?.write(frame);
const instant = (ms) => ({ seconds: Math.floor(ms / 1000), nanos: (ms % 1000) * 1e6 });
const payload = (value) => ({ content_type: 'application/json', data: Buffer.from(JSON.stringify(value)) });
const statuses = () => [...attempts.values()].map((held) => ({
  ref: held.ref, finished: Boolean(held.result), start_time: instant(held.started),
}));

function hello() {
  return {
    protocol_major: 1,
    app: process.env.CLAWJOB_APP,
    executor_id: process.env.CLAWJOB_EXECUTOR_ID ?? 'node-1',
    instance_id: instance,
    resume_token: resumeToken,
    handlers: Object.keys(HANDLERS).map((name) => ({ name })),
    slots: SLOTS,
    sdk: { language: 'node', runtime_version: process.version, pid: process.pid },
    attempts: statuses(),
    last_command_seq: lastCommand,
  };
}

function report(held) {
  if (held.result) send({ result: { ...held.result, ref: held.ref } });
}

// Answers before the handler's first line runs; what is known already is not started again.
function run(command) {
  lastCommand = command.command_seq;
  const { ref } = command;
  const held = attempts.get(key(ref));
  const answer = (status, more) => send({ run_ack: { ref, status, ...more } });
  if (held) {
    held.ref = ref;
    answer('STATUS_DUPLICATE');
    report(held);
  } else if (!Object.hasOwn(HANDLERS, command.handler)) {
    answer('STATUS_REJECTED', { failure: { code: 'UNKNOWN_HANDLER' } });
  } else if (leaving || free() === 0) {
    answer(leaving ? 'STATUS_DRAINING' : 'STATUS_BUSY');
  } else {
    const begun = { ref, started: Date.now(), stop: new AbortController() };
    attempts.set(key(ref), begun);
    answer('STATUS_ACCEPTED');
    work(command, begun);
  }
}

// Runs the handler and keeps what became of it.
async function work(command, held) {
  const result = { start_time: instant(held.started) };
  const before = process.hrtime.bigint();
  try {
    const text = command.params?.data.toString() || 'null';
    result.output = payload(await HANDLERS[command.handler](JSON.parse(text), held.stop.signal));
    result.outcome = 'OUTCOME_SUCCEEDED';
  } catch (error) {
    const stopped = held.stop.signal.aborted;
    result.outcome = stopped ? 'OUTCOME_CANCELED' : 'OUTCOME_FAILED';
    result.failure = {
      code: stopped ? 'STOPPED' : 'HANDLER_ERROR', message: error.message, type: error.name, stack: error.stack,
    };
  }
  const took = process.hrtime.bigint() - before;
  result.finish_time = instant(Date.now());
  result.duration = { seconds: String(took / 1_000_000_000n), nanos: Number(took % 1_000_000_000n) };
  held.result = result;
  report(held);
}

function kill({ ref, command_seq: seq }) {
  if (BigInt(seq) > BigInt(lastCommand)) lastCommand = seq;
  const held = attempts.get(key(ref));
  let status = 'STATUS_NOT_FOUND';
  if (held) status = held.result ? 'STATUS_FINISHED' : 'STATUS_SIGNALED';
  send({ kill_ack: { ref, status } });
  held?.stop.abort();
}

// Says what is held here, every interval: the scheduler compares.
function beats(interval) {
  let seq = 0;
  return setInterval(() => {
    seq += 1;
    send({ heartbeat: { seq, attempts: statuses(), last_command_seq: lastCommand, free_slots: free() } });
  }, Number(interval.seconds) * 1000 + interval.nanos / 1e6);
}

function welcome(frame) {
  console.log('welcome to session', frame.session_id);
  resumeToken = frame.resume_token;
  for (const ref of frame.known_results) attempts.delete(key(ref));
  frame.kills.forEach(kill);
  attempts.forEach(report);
  return beats(frame.heartbeat_interval);
}

// One session, from its Hello to its end; says how it ended.
function session(client, metadata) {
  return new Promise((resolve) => {
    let timer;
    stream = client.Session(metadata);
    stream.on('data', (frame) => {
      switch (frame.frame) {
        case 'welcome': timer = welcome(frame.welcome); break;
        case 'run': run(frame.run); break;
        case 'kill': kill(frame.kill); break;
        case 'result_ack': attempts.delete(key(frame.result_ack.ref)); break;
        case 'close': console.log('closed:', frame.close.message); break;
        default: // an unknown frame is passed over
      }
    });
    stream.on('error', () => {}); // the status tells it
    stream.on('status', (status) => {
      clearInterval(timer);
      stream = undefined;
      resolve(status);
    });
    send({ hello: hello() });
  });
}

async function main() {
  const endpoint = process.env.CLAWJOB_ENDPOINTS.split(',')[0].replace(/^http:\/\//, '');
  const client = new contract.ExecutorService(endpoint, grpc.credentials.createInsecure());
  const metadata = new grpc.Metadata();
  metadata.set('authorization', `Bearer ${process.env.CLAWJOB_TOKEN}`);
  process.on('SIGTERM', () => {
    leaving = true;
    send({ goodbye: { reason: 'asked to end' } });
    stream?.end();
  });
  for (let wait = 500; !leaving; wait = Math.min(2 * wait, LONGEST_WAIT_MS)) {
    const { code, details } = await session(client, metadata);
    console.log('the session ended:', grpc.status[code], details);
    if (FOR_GOOD.has(code)) process.exit(1);
    await sleep(Math.random() * wait);
  }
  process.exit(0);
}

main();
