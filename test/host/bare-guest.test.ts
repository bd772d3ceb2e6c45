/** The bare guest keeps the promises of lab/guest/bare/README.md under both monitors. */
import { skip as skipNetwork } from './own-netns.ts'
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { RoutedTaps } from '../../src/host/tap/routed-taps.ts'
import { atEnd } from '../contract/at-end.ts'
import { tapSpec } from '../contract/taps-stage.ts'
import { until } from '../contract/until.ts'
import { bareStages, bareUnderFirecracker } from './bare-guest-stage.ts'
import type { BareGuest } from './bare-guest-stage.ts'
import { Place } from './network-stage.ts'

const { ipv4Address: ipv4 = '', ipv6Address: ipv6 = '' } = tapSpec
const READY = /bare guest ready life ([0-9a-f]{16})\r\n/
const BOUND_MS = 20_000

const lifeAndCount = async (guest: BareGuest): Promise<string> =>
  guest.ask('count', /life ([0-9a-f]{16} count \d+)\r\n/)

for (const { name, skip, stageOf } of bareStages) {
  test(`${name}: the bare guest answers on its console, keeps its disk, and ends`, { skip }, async (t) => {
    const stage = await stageOf(t)
    const startedAt = performance.now()
    const guest = await stage.start()
    const life = await guest.said(READY)
    t.diagnostic(`ready after ${(performance.now() - startedAt).toFixed(0)} ms`)
    assert.equal(await lifeAndCount(guest), `${life} count 1`)
    assert.equal(await lifeAndCount(guest), `${life} count 2`)
    assert.equal(await guest.ask('any line', /> (.*)\r\n/), 'any line')
    assert.match(await guest.ask('entropy', /entropy (\S+)\r\n/), /^[0-9a-f]{32}$/)
    const hasGeneration = name === 'Firecracker'
    assert.match(
      await guest.ask('vmgenid', /vmgenid (\S+)\r\n/),
      hasGeneration ? /^[0-9a-f]{32}$/ : /^absent$/,
    )
    assert.equal(await guest.ask('size', /size (\d+) sectors/), '2048')
    await guest.ask('write 7 some text', /wrote 7\r\n/)
    await guest.ask('write 2048 beyond the end', /failed to write 2048\r\n/)
    await stage.grow(2)
    assert.equal(await guest.ask('size', /size (\d+) sectors/), '4096')
    await guest.ask('write 2048 beyond the old end', /wrote 2048\r\n/)
    assert.equal(await guest.ask('hammer 20 8', /hammered (\d+)\r\n/), '20')
    assert.equal(await guest.ends('reboot'), 0)
    const next = await stage.start()
    assert.notEqual(await next.said(READY), life)
    assert.equal(await next.ask('read 2048', /sector 2048: (.*)\r\n/), 'beyond the old end')
  })

  test(
    `${name}: the bare guest answers packets, also those of a connection that it was saved with`,
    { skip: skip === false ? skipNetwork : skip },
    async (t) => {
      const taps = new RoutedTaps({ storeId: 'store-1' })
      await taps.ensure(tapSpec)
      atEnd(t, () => taps.close())
      atEnd(t, () => taps.remove(tapSpec.device, tapSpec.vmId))
      const stage = await stageOf(t)
      const guest = await stage.start(tapSpec)
      await guest.said(READY)
      await answersPackets()
      const before = await lifeAndCount(guest)
      const connections = [await open(t, ipv4), await open(t, ipv6)]
      for (const connection of connections) await echoes(connection, 'before')
      const restored = await stage.saveAndRestore(guest, tapSpec)
      const resumedAt = performance.now()
      for (const connection of connections) await echoes(connection, 'after')
      t.diagnostic(
        `both connections answered ${(performance.now() - resumedAt).toFixed(1)} ms after the restore`,
      )
      assert.equal(await lifeAndCount(restored), before.replace('count 1', 'count 2'))
      await answersPackets()
      // More than one window.
      for (const connection of connections) await echoes(connection, 'x'.repeat(20_000))
      for (const connection of connections) {
        connection.end()
        await once(connection, 'close')
      }
    },
  )
}

const [, { skip: skipFirecracker } = { skip: false }] = bareStages

test(
  'Firecracker: the agent of the bare guest sets the time, and a write waits for its thaw',
  { skip: skipFirecracker },
  async (t) => {
    const stage = await bareUnderFirecracker(t)
    let guest = await stage.start()
    await guest.said(READY)
    const generation = await guest.ask('vmgenid', /vmgenid (\S+)\r\n/)
    for (const time of ['1700000000123456789', '1800000000123456789']) {
      const agent = await dialAgent(t, stage.agentPath)
      const answers = agent.command(`"guest-set-time","arguments":{"time":${time}}`)
      assert.equal(await answers, '{"return": {}}')
      assert.equal(await guest.ask('time', /time (\d+)\r\n/), time)
      assert.equal(await agent.command('"guest-fsfreeze-freeze"'), '{"return": 1}')
      assert.equal(await agent.command('"guest-fsfreeze-status"'), '{"return": "frozen"}')
      await guest.ask('write 1 later', /waits for a thaw: write 1\r\n/)
      assert.doesNotMatch(await guest.ask('read 1', /sector 1: (.*)\r\n/), /later/)
      assert.equal(await agent.command('"guest-fsfreeze-thaw"'), '{"return": 1}')
      await guest.said(/wrote 1\r\n/)
      await guest.ask('write 1 again', /wrote 1\r\n/)
      assert.match(await agent.command('"guest-network-get-interfaces"'), /CommandNotFound/)
      guest = await stage.saveAndRestore(guest)
    }
    assert.notEqual(await guest.ask('vmgenid', /vmgenid (\S+)\r\n/), generation)
  },
)

async function answersPackets(): Promise<void> {
  for (const address of [ipv4, ipv6]) {
    // The kernel lets packets out of the tap a moment after the monitor has opened it.
    await until(() => new Place().canPing(address), Boolean)
    const socket = createSocket(address === ipv6 ? 'udp6' : 'udp4')
    try {
      socket.send('datagram', 7, address)
      const [answer] = (await once(socket, 'message', { signal: AbortSignal.timeout(BOUND_MS) })) as [Buffer]
      assert.equal(answer.toString(), 'datagram')
    } finally {
      socket.close()
    }
  }
  const refused = connect({ host: ipv4, port: 8 })
  const [error] = (await once(refused, 'error', { signal: AbortSignal.timeout(BOUND_MS) })) as [
    NodeJS.ErrnoException,
  ]
  assert.equal(error.code, 'ECONNREFUSED')
}

async function open(t: TestContext, host: string): Promise<Socket> {
  const socket = connect({ host, port: 7 })
  atEnd(t, () => socket.destroy())
  await once(socket, 'connect', { signal: AbortSignal.timeout(BOUND_MS) })
  return socket
}

async function echoes(socket: Socket, text: string): Promise<void> {
  socket.write(text)
  let heard = ''
  while (heard.length < text.length) {
    const [chunk] = (await once(socket, 'data', { signal: AbortSignal.timeout(BOUND_MS) })) as [Buffer]
    heard += chunk.toString()
  }
  assert.equal(heard, text)
}

/** Dials the agent as a host does (Firecracker, docs/vsock.md), and synchronises with it. */
async function dialAgent(t: TestContext, path: string): Promise<{ command(words: string): Promise<string> }> {
  const socket = connect(path)
  atEnd(t, () => socket.destroy())
  // A restore ends the connection.
  socket.on('error', () => {})
  const answer = async (text: Buffer | string): Promise<Buffer> => {
    socket.write(text)
    return ((await once(socket, 'data', { signal: AbortSignal.timeout(BOUND_MS) })) as [Buffer])[0]
  }
  assert.match((await answer('CONNECT 1024\n')).toString(), /^OK \d+\n$/)
  const sync = '\xff{"execute":"guest-sync-delimited","arguments":{"id":1234}}\n'
  assert.deepEqual(await answer(Buffer.from(sync, 'latin1')), Buffer.from('\xff{"return": 1234}\n', 'latin1'))
  return { command: async (words) => (await answer(`{"execute":${words}}\n`)).toString().trimEnd() }
}
