/** Shells that the installed daemon opens in a real guest, over its console route. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { WebSocket } from 'ws'
import { controllerIdentity, mutate, remove, setPower, settled } from '../../lab/inside/controller.ts'
import { guestRequest } from '../../lab/inside/guest.ts'
import { until } from '../../lab/inside/until.ts'
import { TestViewer } from '../daemon/support/console-viewer.ts'
import { sharedHost } from './shared-host.ts'
import { story } from './story.ts'
import type { IncomingMessage } from 'node:http'

const ID = 'shell-1'
const HOST_KEY = '/etc/dropbear/dropbear_ed25519_host_key'
const START_SERVER = `/sbin/dropbear -E -P /run/dropbear.pid -r ${HOST_KEY} -s -j -k`
const STOP_SERVER = 'kill $(cat /run/dropbear.pid)'

const createGuest = async (): Promise<void> => {
  await mutate('PUT', `/v1/vms/${ID}`, guestRequest({ network: { ipv4_address: '192.0.2.51' } }))
  await settled(ID, 'running')
}

sharedHost({
  make: async () => {
    await createGuest()
  },
})

/** Connects a viewer that asks for a shell. */
const ask = (query = ''): TestViewer =>
  new TestViewer(
    new WebSocket(`wss://localhost:9000/v1/vms/${ID}/console?mode=ssh${query}`, controllerIdentity()),
  )

/** Resolves to true when the viewer gets its first message, and to false if it is closed before. */
function isAttached({ socket }: TestViewer): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  socket.once('message', () => resolve(true)).once('close', () => resolve(false))
  return promise
}

/** Connects a viewer that has a shell; the guest starts its SSH server last. */
const view = (query = ''): Promise<TestViewer> =>
  until('the guest gives a shell', async () => {
    const viewer = ask(query)
    return (await isAttached(viewer)) ? viewer : undefined
  })

async function refusal(query = ''): Promise<{ readonly code: string; readonly detail: string }> {
  const [, response] = (await once(ask(query).socket, 'unexpected-response')) as [unknown, IncomingMessage]
  let text = ''
  for await (const piece of response) text += String(piece)
  return JSON.parse(text)
}

/** Asks for a shell, and returns how that ended; undefined if there is a shell, which is closed again. */
async function endOfAsking(): Promise<string | undefined> {
  const viewer = ask()
  if (!(await isAttached(viewer))) return closeOf(viewer)
  viewer.socket.close()
  return undefined
}

async function closeOf(viewer: TestViewer): Promise<string> {
  const { status, reason } = await viewer.ended()
  return `${status} ${reason}`
}

/** Runs one command in a shell of its own. */
async function run(command: string, query = ''): Promise<string> {
  const viewer = await view(query)
  viewer.type(`${command}; exit\n`)
  await viewer.ended()
  return viewer.text
}

test('a shell has the size of its viewer, follows it, and its exit status is reported', async () => {
  const viewer = await view('&cols=120&rows=40')
  assert.deepEqual(viewer.texts, [{ attached: { mode: 'ssh' } }])
  viewer.type('id -un; stty size\n')
  await viewer.shows('root\r\n40 120\r\n')
  viewer.send({ resize: { cols: 99, rows: 21 } })
  viewer.type('stty size\n')
  await viewer.shows('21 99\r\n')
  viewer.type('exit 3\n')
  assert.equal(await closeOf(viewer), '1000 shell_ended: exit status 3')
})

test('another user of the guest is admitted; an unknown one is refused', async () => {
  assert.match(await run('id -un', '&user=guest'), /guest\r\n/)
  assert.match(await closeOf(ask('&user=nobody')), /^1011 ssh_key_refused: /)
})

test('a megabyte of output comes whole', async () => {
  const viewer = await view()
  // Octal, so that the command and its echo contain none of the counted characters. The guest's server may drop output
  // that its terminal still holds when the shell exits, so the exit comes later.
  viewer.type('head -c 1000000 /dev/zero | tr "\\0" "\\045"; echo all of "it"\n')
  await viewer.shows('all of it\r\n')
  assert.equal(viewer.text.split('%').length - 1, 1_000_000)
  viewer.socket.close()
})

test('a guest whose server is stopped refuses, and gives shells again when it is back', async () => {
  const viewer = await view()
  viewer.type(`${STOP_SERVER}\n`)
  // An immediate request may be faster than the server's end.
  await until('nothing listens', async () =>
    (await endOfAsking())?.startsWith('1011 ssh_refused: ') ? true : undefined,
  )
  viewer.type(`${START_SERVER}\n`)
  ;(await view()).socket.close()
  viewer.socket.close()
})

test('a guest whose host key changes is refused until its new key is accepted', async () => {
  await run(`${STOP_SERVER}; rm ${HOST_KEY}; dropbearkey -t ed25519 -f ${HOST_KEY}; ${START_SERVER}`)
  const { code, detail } = await refusal()
  assert.equal(code, 'ssh_host_key_changed')
  const [accept] = /accept_host_key=\S+$/.exec(detail) ?? []
  assert.ok(accept !== undefined, detail)
  assert.equal((await refusal(`&accept_host_key=SHA256:${'A'.repeat(43)}`)).code, 'ssh_host_key_changed')
  await run('true', `&${accept}`)
  await run('true')
})

story('shells end with their VM, and a new VM of that id gives shells again', {
  'the stop of a VM ends its shells, and there are none while it is stopped': async () => {
    const viewer = await view()
    await setPower(ID, 'stopped')
    assert.match(await closeOf(viewer), /^1000 vm_stopped$|^1011 ssh_lost: /)
    await settled(ID, 'stopped')
    assert.equal((await refusal()).code, 'vm_not_running')
  },
  'a VM that is created again under the same id may have another host key': async () => {
    await remove(ID)
    await createGuest()
    assert.match(await run('id -un'), /root\r\n/)
  },
})
