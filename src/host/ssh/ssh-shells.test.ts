import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { newSshKey, SshServer } from '../../../test/contract/ssh-server.ts'
import { until } from '../../../test/contract/until.ts'
import { killedBy } from './ssh-shell.ts'
import { SshShells } from './ssh-shells.ts'
import type { TestContext } from 'node:test'
import type { GuestMood, ServedShell } from '../../../test/contract/ssh-server.ts'
import type { GuestShell, ShellEnd } from '../../ports/guest-shells.ts'
import type { SshShellsOptions } from './ssh-shells.ts'

const key = newSshKey()
const window = { cols: 80, rows: 24 }

type Stage = {
  readonly server: SshServer
  readonly shell: GuestShell
  readonly inside: ServedShell
  readonly ends: ShellEnd[]
  readonly heard: { bytes: number; text: string }
}

async function open(
  t: TestContext,
  options: Partial<SshShellsOptions> = {},
  mood: GuestMood = 'well',
): Promise<Stage> {
  const server = await SshServer.start(key.publicKey)
  server.mood = mood
  t.after(() => server.stop())
  const shells = new SshShells({ ...key, port: server.port, ...options })
  const request = { address: '127.0.0.1', user: 'root', window, acceptHostKey: () => true }
  const opened = await shells.open(request, new AbortController().signal)
  assert.ok(opened.ok)
  const shell = opened.value
  const [inside] = server.shells
  assert.ok(inside !== undefined)
  const ends: ShellEnd[] = []
  const heard = { bytes: 0, text: '' }
  shell.attach({
    onOutput: (bytes) => {
      heard.bytes += bytes.length
      if (bytes.length < 100) heard.text += Buffer.from(bytes).toString()
    },
    onEnd: (end) => ends.push(end),
  })
  return { server, shell, inside, ends, heard }
}

const endOf = async ({ ends }: Stage): Promise<ShellEnd | undefined> =>
  until(
    () => ends[0],
    (end) => end !== undefined,
  )

test('the standard error of a shell is output too', async (t) => {
  const stage = await open(t)
  stage.inside.complain('oh no')
  await until(
    () => stage.heard.text,
    (text) => text === 'oh no',
  )
  stage.shell.close()
})

test('a shell that ends without an exit status is lost, not a success', async (t) => {
  const stage = await open(t)
  stage.inside.endSilently()
  assert.deepEqual(await endOf(stage), {
    kind: 'lost',
    because: 'the guest ended the shell without a status',
  })
})

test('an invalid signal name is not passed on', () => {
  assert.deepEqual(killedBy('SIGUSR1'), { kind: 'killed', signal: 'SIGUSR1' })
  assert.deepEqual(killedBy('SIG\u001b[2J'), { kind: 'killed', signal: 'SIG?' })
})

test('a guest that stops responding is noticed by unanswered keepalives', async (t) => {
  const stage = await open(t, { keepaliveMs: 30 })
  stage.server.stall()
  assert.deepEqual(await endOf(stage), { kind: 'lost', because: 'the guest no longer answers' })
})

test('a guest that answers keepalives is left alone, also while it is not read', async (t) => {
  const stage = await open(t, { keepaliveMs: 50 })
  stage.shell.pause()
  stage.inside.say('y'.repeat(4 * 1024 * 1024))
  const before = stage.server.bytesHeard
  // Several times as many as a silent guest gets. Each takes less than 100 bytes (RFC 4254, section 4).
  await until(
    () => stage.server.bytesHeard,
    (bytes) => bytes >= before + 20 * 100,
  )
  assert.deepEqual(stage.ends, [])
  stage.shell.close()
})

test('input that waits for the end of a key exchange is counted, and room is reported after it', async (t) => {
  const { server, shell, inside } = await open(t)
  let roomNotices = 0
  shell.onInputRoom(() => (roomNotices += 1))
  server.stallInKeyExchange()
  const piece = Buffer.alloc(1000)
  // Until the client has the server's first message of the exchange, its socket takes all.
  await until(
    () => {
      shell.write(piece)
      return shell.inputWaiting
    },
    (waiting) => waiting > 0,
  )
  while (shell.inputWaiting <= limits.consoleInputBytesMax) shell.write(piece)
  assert.equal(roomNotices, 0)
  const sent = inside.input.length
  server.goOn()
  await until(
    () => roomNotices,
    (notices) => notices === 1,
  )
  assert.equal(shell.inputWaiting, 0)
  await until(
    () => inside.input.length,
    (length) => length > sent + limits.consoleInputBytesMax - 10_000,
  )
  shell.close()
})

test('of the sizes that wait for the end of a key exchange, the newest is sent', async (t) => {
  const { server, shell, inside } = await open(t)
  server.stallInKeyExchange()
  await until(
    () => {
      shell.write(Buffer.from('x'))
      return shell.inputWaiting
    },
    (waiting) => waiting > 0,
  )
  const waiting = shell.inputWaiting
  for (let cols = 1; cols <= 500; cols += 1) shell.resize({ cols, rows: 24 })
  assert.equal(shell.inputWaiting, waiting)
  server.goOn()
  await until(
    () => inside.sizes.at(-1)?.cols,
    (cols) => cols === 500,
  )
  assert.ok(inside.sizes.length < 5)
  shell.close()
})

test('a guest that sends beyond its window to a viewer that does not read is cut off', async (t) => {
  const stage = await open(t)
  stage.shell.pause()
  stage.inside.ignoreWindow()
  // Not a divisor of the window: ssh2 ignores data that arrives when exactly nothing of the window is left.
  const piece = Buffer.alloc(1024 * 1024 + 1)
  for (let time = 0; time < 5; time += 1) stage.inside.say(piece)
  await until(
    () => stage.server.connectionCount,
    (count) => count === 0,
  )
  stage.shell.resume()
  assert.deepEqual(await endOf(stage), { kind: 'lost', because: 'the guest sends more than SSH lets it' })
  assert.ok(stage.heard.bytes < 4 * 1024 * 1024, `${stage.heard.bytes} bytes were kept`)
})

test('a guest that sends short messages to a viewer that does not read waits, and loses nothing', async (t) => {
  const stage = await open(t)
  stage.shell.pause()
  const messages = (2 * limits.sshKeptBytesMax) / limits.sshMessageKeptBytes
  for (let message = 0; message < messages; message += 1) stage.inside.say('x')
  // The stage opens shells of this driver.
  const { keptBytes: mostKept } = await until(
    () => stage.shell as unknown as { readonly keptBytes: number },
    ({ keptBytes }) => keptBytes * limits.sshMessageKeptBytes > limits.sshKeptBytesMax,
  )
  assert.ok(mostKept < messages, `${mostKept} messages were kept`)
  stage.shell.resume()
  await until(
    () => stage.heard.bytes,
    (bytes) => bytes === messages,
  )
  stage.shell.close()
})

test('a guest is read no faster than its limit', async (t) => {
  const bytesPerSecond = 1024 * 1024
  const stage = await open(t, { bytesPerSecond })
  const beganMs = performance.now()
  const bytes = limits.consoleMovedBurstBytes + bytesPerSecond / 2
  stage.inside.say(Buffer.alloc(bytes))
  await until(
    () => stage.heard.bytes,
    (heard) => heard === bytes,
  )
  const tookMs = performance.now() - beganMs
  assert.ok(tookMs > 300, `half a second's worth past the burst came in ${tookMs} ms`)
  stage.shell.close()
})

test('a guest that sends output behind its end, before there is a shell, is given up and nothing else', async (t) => {
  const server = await SshServer.start(key.publicKey)
  t.after(() => server.stop())
  server.mood = 'sending what comes after the end'
  const shells = new SshShells({ ...key, port: server.port, connectMs: 1000 })
  const request = { address: '127.0.0.1', user: 'root', window, acceptHostKey: () => true }
  const opened = await shells.open(request, new AbortController().signal)
  assert.equal(opened.ok, false)
})

test('a guest that says again that the client is authenticated gets no other session', async (t) => {
  const { server, shell, heard, inside } = await open(t)
  server.authenticateAgain(100)
  inside.say('still here')
  await until(
    () => heard.text,
    (text) => text === 'still here',
  )
  assert.equal(server.sessionCount, 1)
  shell.close()
})

test('a guest that exchanges keys without end is cut off', async (t) => {
  const stage = await open(t)
  stage.server.exchangeKeysWithoutEnd()
  const because = 'the guest exchanges keys too often'
  assert.deepEqual(await endOf(stage), { kind: 'lost', because })
})

test('a guest that breaks the protocol and keeps the connection open is lost', async (t) => {
  const stage = await open(t, {}, 'never hanging up')
  stage.server.breakProtocol()
  assert.equal((await endOf(stage))?.kind, 'lost')
})

test('a guest that refuses a terminal gives no shell', async (t) => {
  const server = await SshServer.start(key.publicKey)
  t.after(() => server.stop())
  server.mood = 'refusing terminals'
  const shells = new SshShells({ ...key, port: server.port })
  const request = { address: '127.0.0.1', user: 'root', window, acceptHostKey: () => true }
  const opened = await shells.open(request, new AbortController().signal)
  assert.equal(opened.ok ? 'a shell' : opened.error.kind, 'shell_refused')
})

for (const [mood, because] of [
  ['taking no bytes', /takes only 0 bytes in a packet/],
  ['flooding before the shell', /sends more than SSH lets it/],
] as const) {
  test(`a guest that is ${mood} gives no shell, and is cut off`, async (t) => {
    const server = await SshServer.start(key.publicKey)
    t.after(() => server.stop())
    server.mood = mood
    const shells = new SshShells({ ...key, port: server.port })
    const request = { address: '127.0.0.1', user: 'root', window, acceptHostKey: () => true }
    const opened = await shells.open(request, new AbortController().signal)
    assert.match(opened.ok ? 'a shell' : opened.error.detail, because)
    await until(
      () => server.connectionCount,
      (count) => count === 0,
    )
  })
}
