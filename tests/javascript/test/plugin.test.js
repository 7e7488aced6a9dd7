import assert from 'node:assert/strict';
import { test } from 'node:test';

import { harnessAdapter } from '../src/plugin.js';

const configuration = {
  functions: [],
  mcp: [],
  model: { id: 'm' },
  home: '/home',
  workspace: { tag: 'absent' },
  history: { tag: 'fresh' },
};

const command = (session, tag, val) => session.step([{ tag: 'command', val: { tag, val } }]);
const line = (session, frame) => session.step([{ tag: 'line', val: { process: 0, text: JSON.stringify(frame) } }]);
const written = (outputs) => outputs.filter(({ tag }) => tag === 'write').map(({ val }) => JSON.parse(val.content[0].val));
const receipts = (outputs) => outputs.filter(({ tag }) => tag === 'receipt').map(({ val }) => [val.id, val.outcome.tag]);

/** A session whose thread takes Turns. */
function prepared() {
  const session = harnessAdapter.Session.open(configuration);
  command(session, 'prepare', 'p');
  const [hello] = written(session.step([{ tag: 'launched', val: 0 }]));
  const [, thread] = written(line(session, { id: hello.id, result: {} }));
  const [ready] = line(session, { id: thread.id, result: { thread: { id: 't' } } });
  assert.deepEqual(ready, { tag: 'prepared', val: { tag: 'ok', val: { id: 't', durable: false } } });
  return session;
}

function start(session) {
  const message = { id: 'm', content: [{ tag: 'text', val: 'hi' }] };
  const [request] = written(command(session, 'start-turn', { run: 'r', messages: [message] }));
  return request.id;
}

test('a question of the harness is answered at once', () => {
  const [answer] = written(line(prepared(), { id: 7, method: 'item/tool/requestUserInput', params: {} }));
  assert.equal(answer.id, 7);
  assert.ok(answer.error);
});

test('an interrupt waits for its Turn, and its receipt for the end of it', () => {
  const session = prepared();
  const id = start(session);
  assert.deepEqual(command(session, 'cancel-turn', { id: 'c', run: 'r' }), []);
  const began = line(session, { id, result: { turn: { id: 'n' } } });
  assert.deepEqual([receipts(began), written(began)[0].method], [[['r', 'done']], 'turn/interrupt']);
  const over = line(session, { method: 'turn/completed', params: { turn: { id: 'n', status: 'interrupted' } } });
  assert.deepEqual(receipts(over), [['m', 'unknown'], ['c', 'done']]);
});

test('a refused start never was', () => {
  const session = prepared();
  const refused = line(session, { id: start(session), error: { message: 'no' } });
  assert.deepEqual(receipts(refused), [['r', 'rejected'], ['m', 'rejected']]);
  assert.ok(start(session) > 0);
});

test('lines that are no frames are told and ignored', () => {
  const session = prepared();
  const outputs = session.step(['nonsense', '5', 'null'].map((text) => ({ tag: 'line', val: { process: 0, text } })));
  assert.deepEqual(outputs.map(({ val }) => val.body.val.code), ['bad_line', 'bad_line', 'bad_line']);
});
