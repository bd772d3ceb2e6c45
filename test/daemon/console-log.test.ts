import assert from 'node:assert/strict'
import { Agent } from 'node:https'
import { before, test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { assertProblem, makePki, send, startControllerHost } from './support/controller-host.ts'
import { createVm, startConsole, stopConsole, WEB } from './support/console-viewer.ts'
import { clientWith } from './support/coordination-host.ts'
import type { Answer, ControllerHost, Json, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const path = `/v1/vms/${WEB}/console/log`
const log = (host: ControllerHost, query = ''): Promise<Answer> => host.call({ path: `${path}${query}` })

test('the log has what the guest wrote, as text that does nothing to a terminal, also after its stop', async (t) => {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  const { detail } = assertProblem(await log(host), 409, 'vm_not_running')
  assert.match(detail, /web-1 is \w+, and has had no console since the host's last boot: nothing is kept/)
  const session = await startConsole(host)
  const silent = await log(host)
  assert.deepEqual([silent.status, silent.text], [200, ''])
  session.say(Buffer.from('\u001B[1mbooting\u001B[0m\r\n10%\r20%\r\nlogin: '))
  const { status, text, headers } = await log(host)
  assert.deepEqual([status, text], [200, 'booting\n10%\n20%\nlogin: \n'])
  assert.equal(headers['content-type'], 'text/plain; charset=utf-8')
  assert.equal(headers['x-content-type-options'], 'nosniff')
  assert.equal((await log(host, '?tail=2')).text, '20%\nlogin: \n')
  await stopConsole(host)
  assert.equal((await log(host, '?tail=1')).text, 'login: \n')
})

test('a log whose beginning is lost begins with a whole line', async (t) => {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  const session = await startConsole(host)
  for (let kib = 0; kib < limits.consoleHistoryBytes / 1024 + 1; kib += 1)
    session.say(Buffer.from(`${String(kib).padStart(1021, '.')}\r\n`))
  const lines = (await log(host)).text.split('\n')
  assert.equal(lines.pop(), '')
  assert.ok(lines.length > 200 && lines.every((line) => line.length === 1021), `${lines.length} lines`)
})

test('a wrong tail is refused, and so is a VM that does not exist', async (t) => {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  for (const query of ['?tail=0', '?tail=x', `?tail=${limits.consoleHistoryBytes + 1}`, '?lines=3'])
    assertProblem(await log(host, query), 400, 'invalid_request')
  assertProblem(await host.call({ path: '/v1/vms/nope/console/log' }), 404, 'not_found')
})

test('the log is for those who may open the console, and each reading is in the audit trail', async (t) => {
  const clients = [
    { commonName: 'metrics', role: 'reader' },
    { commonName: 'anna', role: 'console', vm: WEB },
  ] as const
  const host = await startControllerHost(t, pki, { clients })
  await createVm(host)
  await startConsole(host)
  const ask = async (commonName: string, at = path): Promise<Answer> => {
    const pair = await pki.issue({ commonName })
    return send(host.port, { path: at, client: { ...clientWith(pki, pair), agent: new Agent() } })
  }
  assertProblem(await ask('metrics'), 403, 'role_required')
  assertProblem(await ask('anna', '/v1/vms/other-1/console/log'), 403, 'role_required')
  assert.equal((await ask('anna')).status, 200)
  const trail = host.logLines
    .map((line): Json => JSON.parse(line))
    .filter(({ message, action }) => message === 'request audited' && action === 'getConsoleLog')
    .map(({ certificate_name, outcome }) => [certificate_name, outcome])
  assert.deepEqual(trail, [
    ['metrics', 'refused'],
    ['anna', 'refused'],
    ['anna', 'accepted'],
  ])
})
