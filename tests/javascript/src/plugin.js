// An adapter for the scripted harness: one process that speaks JSON-RPC, one line a message, one thread for each session.

import { declare } from './declare.js';
import { confirmedSteer, done, rejected, Turn, unknown } from './turn.js';

/** The agent's process. */
const PROCESS = 0;
const LONGEST_LINE = 16 * 1024 * 1024;
/** UTF-16 units; at most three bytes each. */
const LONGEST_DETAIL = 300;

export const harnessAdapter = {
  features: () => [],

  describe(_settings) {
    const everywhere = ['admitted', 'admitted', 'refused'];
    const declaration = declare('scripted', 'Scripted, from JavaScript', {
      streaming: everywhere,
      steering: everywhere,
      execution_controls: everywhere,
      tool_observations: everywhere,
      message_items: everywhere,
      environment_none: ['admitted', 'refused', 'refused'],
      native_session_recovery: everywhere,
    });
    declaration.messages.maxMessagesPerTurn = undefined;
    declaration.cancellation.keepsProcess = true;
    return [declaration];
  },

  interpretProbe(_harness, reports) {
    const version = reports.find(({ exitCode }) => exitCode === 0)?.stdout.match(/^codex-cli (\S+)\n$/)?.[1];
    return { version, problem: version === undefined ? 'program_unusable' : undefined, withheld: [] };
  },

  Session: class Session {
    #configuration;
    #cwd;
    #alive = false;
    #preparing = false;
    #thread;
    #turn;
    /** What each request that waits for its answer does with it. */
    #waiting = new Map();
    #requests = 0;
    /** Outputs of the present step. */
    #out = [];

    constructor(configuration) {
      this.#configuration = configuration;
      const { workspace, home } = configuration;
      this.#cwd = workspace.tag === 'here' ? workspace.val : home;
    }

    static open(configuration) {
      const { functions, mcp, model, workspace, history } = configuration;
      const wanted = functions.length === 0 && mcp.length === 0 && model !== undefined;
      if (!wanted || !['here', 'absent'].includes(workspace.tag)) throw failure('unsupported_configuration');
      if (history.tag === 'recover') throw failure('unsupported_preparation');
      return new Session(configuration);
    }

    step(inputs) {
      this.#out = [];
      for (const input of inputs) this.#take(input);
      return this.#out;
    }

    #take({ tag, val }) {
      switch (tag) {
        case 'command':
          return this.#command(val);
        case 'launched':
          this.#alive = true;
          return this.#prepare();
        case 'launch-failed':
          return this.#unprepared(val.code === 'program_missing' ? val.code : 'program_failed');
        case 'line':
          return this.#line(val.text);
        case 'ended':
          return this.#ended(val.clean);
      }
    }

    #command({ tag, val }) {
      switch (tag) {
        case 'prepare':
          this.#preparing = true;
          return this.#say('launch', this.#plan());
        case 'start-turn':
          return this.#start(val);
        case 'add-message':
          return this.#steer(val);
        case 'cancel-turn':
          if (this.#turn?.id !== val.run) return this.#out.push(rejected(val.id, 'not_running'));
          this.#turn.cancels.push(val.id);
          return this.#interrupt();
        case 'close':
          if (this.#alive) this.#say('close-input', PROCESS);
          return this.#out.push(done(val));
        case 'function-result':
          return this.#out.push(rejected(val.id, 'unsupported'));
      }
    }

    // ---- from the start of the process to a thread

    #prepare() {
      this.#request('initialize', { clientInfo: { name: 'berth', version: '0.1.0' } }, (answer) => {
        if (answer.error) return this.#unprepared('program_failed', answer.error.message);
        this.#write({ method: 'initialized' });
        this.#openThread();
      });
    }

    #openThread() {
      const { model, history } = this.#configuration;
      const params = { cwd: this.#cwd, model: model.id, modelProvider: 'berth' };
      const resumed = history.tag === 'resume';
      if (resumed) params.threadId = history.val;
      this.#request(resumed ? 'thread/resume' : 'thread/start', params, ({ result, error }) => {
        if (error) return this.#unprepared(resumed ? 'history_missing' : 'program_failed', error.message);
        this.#thread = result.thread.id;
        this.#preparing = false;
        this.#say('prepared', { tag: 'ok', val: { id: this.#thread, durable: resumed } });
      });
    }

    #unprepared(code, detail = '', effect = 'none') {
      if (!this.#preparing) return;
      this.#preparing = false;
      this.#say('prepared', { tag: 'err', val: failure(code, detail, effect) });
    }

    // ---- Turns

    #start({ run, messages }) {
      const ids = messages.map(({ id }) => id);
      const input = messages.flatMap(parts);
      const code = !this.#thread || !this.#alive || this.#turn ? 'executor_unavailable' : 'unsupported_content';
      if (code === 'executor_unavailable' || input.includes(undefined)) {
        return this.#out.push(...[run, ...ids].map((id) => rejected(id, code)));
      }
      const turn = new Turn(run, ids, this.#thread);
      this.#turn = turn;
      const params = { threadId: this.#thread, clientUserMessageId: ids[0], input };
      this.#request('turn/start', params, ({ result, error }) => {
        if (error) {
          this.#turn = undefined;
          const open = [run, ...turn.first, ...turn.steers, ...turn.cancels];
          return this.#out.push(...open.map((id) => rejected(id, 'refused')));
        }
        turn.exists(result.turn.id, this.#out);
        this.#interrupt();
      }, ids);
    }

    #steer({ run, message }) {
      const turn = this.#turn;
      const input = parts(message);
      if (turn?.id !== run || turn.native === undefined) return this.#out.push(rejected(message.id, 'not_running'));
      if (input.includes(undefined)) return this.#out.push(rejected(message.id, 'unsupported_content'));
      turn.steers.push(message.id);
      const params = { threadId: this.#thread, expectedTurnId: turn.native, clientUserMessageId: message.id, input };
      this.#request('turn/steer', params, ({ error }) => {
        if (error && confirmedSteer(turn, message.id)) this.#out.push(rejected(message.id, 'not_running'));
      }, [message.id]);
    }

    /** Once there is a native Turn and somebody wants it to end. */
    #interrupt() {
      const turn = this.#turn;
      if (!turn || turn.native === undefined || turn.interrupted || turn.cancels.length === 0) return;
      turn.interrupted = true;
      this.#request('turn/interrupt', { threadId: this.#thread, turnId: turn.native }, () => {});
    }

    // ---- lines

    #line(text) {
      let frame;
      try {
        frame = JSON.parse(text);
      } catch {
        return this.#notice('bad_line', 'not JSON');
      }
      if (frame === null || typeof frame !== 'object') return this.#notice('bad_line', 'not an object');
      const { id, method, params } = frame;
      if (method === undefined) {
        const answered = this.#waiting.get(id);
        this.#waiting.delete(id);
        return answered?.(frame);
      }
      // Nobody is there to be asked.
      if (id !== undefined) return this.#write({ id, error: { code: -32601, message: 'nobody can answer' } });
      const turn = this.#turn;
      const about = params?.turnId ?? params?.turn?.id;
      if (!turn || turn.native === undefined || about !== turn.native) return;
      if (method === 'turn/completed') {
        this.#turn = undefined;
        return turn.over(params.turn, this.#out);
      }
      turn.notification(method, params, this.#out);
    }

    #ended(clean) {
      this.#alive = false;
      this.#waiting.clear();
      this.#unprepared('program_failed', '', clean ? 'none' : 'unknown');
      this.#turn?.lost(clean, this.#out);
      this.#turn = undefined;
    }

    // ---- outputs

    #request(method, params, answered, carries = []) {
      this.#requests += 1;
      this.#waiting.set(this.#requests, answered);
      this.#write({ id: this.#requests, method, params }, carries);
    }

    #write(frame, carries = []) {
      const line = { tag: 'text', val: `${JSON.stringify(frame)}\n` };
      this.#say('write', { process: PROCESS, content: [line], carries });
    }

    #notice(code, detail) {
      const body = { tag: 'notice', val: { code, detail } };
      this.#say('event', { origin: { tag: 'session' }, body });
    }

    #say(tag, val) {
      this.#out.push({ tag, val });
    }

    #plan() {
      const { home, workspace } = this.#configuration;
      return {
        process: PROCESS,
        program: 'scripted',
        args: ['app-server'],
        env: [{ name: 'CODEX_HOME', value: [{ tag: 'text', val: home }] }],
        home: [],
        directory: workspace.tag === 'here' ? 'workspace' : 'home',
        framing: { tag: 'lines', val: LONGEST_LINE },
        tools: undefined,
        more: [],
      };
    }
  },
};

/** The native form of a message's parts; `undefined` for what is no text. */
function parts({ content }) {
  return content.map(({ tag, val }) => (tag === 'text' ? { type: 'text', text: val } : undefined));
}

function failure(code, detail = '', effect = 'none') {
  return { code, detail: detail.slice(0, LONGEST_DETAIL), effect };
}
