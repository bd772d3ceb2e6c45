import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { buildClients } from '../../tools/clients/clients.ts'
import { checkout, distPath } from '../../tools/paths.ts'
import { run, runChecked } from '../../tools/process.ts'
import { createBody, makePki, startControllerHost } from '../daemon/support/controller-host.ts'
import { reachOf, startOddDaemon } from './support/odd-daemon.ts'
import type { Json, Pki } from '../daemon/support/controller-host.ts'

/** The beginning of each program: a client, and what becomes of a call as a word. */
const HEAD = `
import json, os
from vmhostd_client import ApiProblem, Client, UnexpectedAnswer, tls_context

stage = json.loads(os.environ["STAGE"])
client = Client(stage["url"], tls_context(stage["ca"], stage["cert"], stage["key"]))

def outcome(call):
    try:
        return call()
    except ApiProblem as problem:
        return f"{problem.code} {problem.status} {problem.retry_after}"
    except UnexpectedAnswer as answer:
        return f"unexpected {answer.status}"
    except OSError:
        return "lost"
`

const ASK = `
def of(name):
    answer = client.get_vm(name)
    return f"{answer.status} {answer.data}"

def log_of(name):
    answer = client.get_console_log(name)
    return f"{answer.status} {answer.data!r}"

names = stage["names"]
print(json.dumps({name: outcome(lambda: of(name)) for name in names} | {
    f"log {name}": outcome(lambda: log_of(name)) for name in stage["logs"]
}))
`

const READ = `
def read(name):
    seen = []
    def go_on():
        for message in client.stream_events(after=0, vm_id=name):
            if message.start is not None:
                seen.append(f"start {message.start['after']} {message.start['missed']}, after {message.after}")
            elif message.event is not None:
                seen.append(f"event {message.event['sequence']}, after {message.after}")
            else:
                seen.append(f"after {message.after}")
        return "end"
    return seen + [outcome(go_on)]

print(json.dumps({name: read(name) for name in stage["names"]}))
`

/** Runs the loop of the manual with a client that fails in each way, the last time for good. */
const FOLLOW = `
import time
pauses = []
time.sleep = pauses.append

def refusal(retryable, seconds):
    problem = {"code": "starting_up" if retryable else "forbidden", "detail": "no", "status": 503, "retryable": retryable}
    return ApiProblem(problem, seconds)

class Failing:
    failures = [refusal(True, 7), refusal(True, None), OSError("cut"), refusal(False, None)]

    def stream_events(self, after=None):
        raise self.failures.pop(0)

client = Failing()
print(json.dumps([outcome(lambda: exec(stage["loop"], globals())), pauses]))
`

const USE = `
body = stage["body"]
missing = outcome(lambda: client.get_vm("web-1").data)
invalid = outcome(lambda: client.create_vm("web-1", {"compute": body["compute"]}))
made = client.create_vm("web-1", body)
client.set_vm_metadata("web-1", {"labels": {"tier": "web"}, "protected": True})
kept = outcome(lambda: client.delete_vm("web-1"))
dots = [outcome(lambda: client.withdraw_offer(id)) for id in [".", ".."]]
stale = outcome(lambda: client.set_vm_metadata("web-1", {"labels": {}}, if_match=made.etag))
vm = client.get_vm("web-1")
unchanged = client.get_vm("web-1", if_none_match=vm.etag)
listed = [item["id"] for item in client.list_vms(label="tier=web").data["items"]]
events = [message.event["kind"] for message in client.stream_events(after=0, follow=False) if message.event]
print(json.dumps({
    "missing": missing, "invalid": invalid, "made": made.status, "kept": kept, "dots": dots, "stale": stale,
    "labels": vm.data["labels"], "unchanged": [unchanged.status, unchanged.data], "listed": listed, "events": events,
}))
`

const { stdout } = await run(['python3', '--version'])
const [, major = 0, minor = 0] = /^Python (\d+)\.(\d+)/.exec(stdout) ?? []
const skip = Number(major) * 100 + Number(minor) < 311 && 'Python 3.11 is not installed'

const folder = mkdtempSync(join(distPath(), 'python-user-'))
after(() => rmSync(folder, { recursive: true }))

let pki: Pki
before(async () => {
  if (skip !== false) return
  pki = await makePki()
  const archives = await buildClients(folder, { version: '1.2.3', date: new Date(0) })
  const archive = archives.find((name) => name.includes('client-python')) ?? ''
  await runChecked(['tar', '--extract', '--file', archive, '--directory', folder, '--strip-components=1'])
})

/** Runs a program that has the released client, and returns what it printed. */
async function runProgram(
  text: string,
  port: number,
  more: Readonly<Record<string, unknown>>,
): Promise<Json> {
  writeFileSync(join(folder, 'program.py'), HEAD + text)
  const env = { ...process.env, STAGE: JSON.stringify({ ...reachOf(port, pki, folder), ...more }) }
  return JSON.parse(await runChecked(['python3', '-W', 'error', 'program.py'], { cwd: folder, env }))
}

test('a Python program creates a VM, reads it, and is refused as the API says', { skip }, async (t) => {
  const { port } = await startControllerHost(t, pki)
  assert.deepEqual(await runProgram(USE, port, { body: createBody() }), {
    missing: 'not_found 404 None',
    invalid: 'invalid_request 400 None',
    made: 202,
    kept: 'vm_protected 409 None',
    dots: ['invalid_request 400 None', 'invalid_request 400 None'],
    stale: 'precondition_failed 412 None',
    labels: { tier: 'web' },
    unchanged: [304, null],
    listed: ['web-1'],
    events: ['vm_created'],
  })
})

test(
  "in Python, an answer is data, a problem, one that is not the daemon's, or an OSError",
  { skip },
  async (t) => {
    const expected = {
      moved: 'unexpected 302',
      'moved-for-good': 'unexpected 308',
      unchanged: '304 None',
      busy: 'starting_up 503 7',
      refused: 'starting_up 409 None',
      'other-problem': 'unexpected 502',
      'not-text': 'unexpected 200',
      cut: 'lost',
      'cut-chunk': 'lost',
      endless: 'unexpected 200',
      'endless-refusal': 'unexpected 500',
      'log endless': 'unexpected 200',
      'log not-text': 'unexpected 200',
      'log wrote-nothing': "200 ''",
    }
    const names = Object.keys(expected)
    const stage = {
      names: names.filter((name) => !name.startsWith('log ')),
      logs: names.filter((name) => name.startsWith('log ')).map((name) => name.slice(4)),
    }
    assert.deepEqual(await runProgram(ASK, await startOddDaemon(t, pki), stage), expected)
  },
)

test('in Python, each message of a stream says after which number to go on', { skip }, async (t) => {
  const begin = ['start 3 False, after 3', 'event 4, after 4']
  const expected = {
    'two-starts': [...begin, 'after 9', 'start 20 True, after 20', 'event 21, after 21', 'end'],
    'stream-cut': [...begin, 'lost'],
    'stream-of-one-line': ['unexpected 200'],
    'stream-of-one-message': ['unexpected 200'],
    'stream-of-page': ['unexpected 200'],
    busy: ['starting_up 503 7'],
  }
  const stage = { names: Object.keys(expected) }
  assert.deepEqual(await runProgram(READ, await startOddDaemon(t, pki), stage), expected)
})

test(
  'the loop of the manual for Python waits for a daemon that starts, and ends with a refusal',
  { skip },
  async () => {
    const manual = readFileSync(join(checkout, 'tools/clients/python/README.md'), 'utf8')
    const blocks = [...manual.matchAll(/```python\n(.*?)```/gs)].map(([, code]) => code)
    const loop = blocks.find((code) => code?.includes('stream_events'))
    assert.deepEqual(await runProgram(FOLLOW, 9, { loop }), ['forbidden 503 None', [7, 2, 2]])
  },
)
