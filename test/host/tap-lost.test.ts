/** A tap deleted or renamed under a real QEMU and its guest: it comes back without action by the guest. */
import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmod, chown, mkdir, mkdtemp, rm, truncate, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { TapSpec } from '../../src/core/network/tap.ts'
import { run } from './run.ts'
import { QemuMonitor } from '../../src/host/qemu/qemu-monitor.ts'
import { RoutedTaps } from '../../src/host/tap/routed-taps.ts'
import { silentLog } from '../../src/log/log.ts'
import { atEnd } from '../contract/at-end.ts'
import { endChild } from '../contract/child.ts'
import { tapSpec } from '../contract/taps-stage.ts'
import { until } from '../contract/until.ts'
import { machineOf } from '../fakes/machine.ts'
import { Place } from './network-stage.ts'

const PROGRAM = `/usr/bin/qemu-system-${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}`
const GUEST = '/srv/guest'
const BOUND_MS = 60_000
/** Many windows of TCP, and so frames of every kind. */
const PAYLOAD_BYTES = 3 * 1024 * 1024
const { device, vmId: id, userId, ipv4Address = '', ipv6Address = '' } = tapSpec

type RunningGuest = {
  readonly pid: number
  /** Types a line into the guest's shell. */
  type(line: string): void
  said(): string
  atEnd(act: () => void): void
}

async function startGuest(t: TestContext, spec: TapSpec): Promise<RunningGuest> {
  // As on a host with udev: every user may open it.
  await run(['mknod', '-m', '666', '/run/netns/.tun', 'c', '10', '200'])
  await run(['mount', '--bind', '/run/netns/.tun', '/dev/net/tun'])
  const runDirectory = await mkdtemp(join(tmpdir(), 'vmh-'))
  await chmod(runDirectory, 0o755)
  const directory = join(runDirectory, id)
  await mkdir(directory)
  const [diskPath, seedPath] = [join(directory, 'disk.raw'), join(directory, 'seed.iso')]
  for (const path of [diskPath, seedPath]) await writeFile(path, '').then(() => truncate(path, 1024 * 1024))
  for (const path of [directory, diskPath, seedPath]) await chown(path, userId, userId)
  const monitor = new QemuMonitor({ program: PROGRAM, accelerator: 'tcg', runDirectory, log: silentLog })
  const machine = machineOf(id, {
    userId,
    kernelPath: join(GUEST, 'vmlinuz'),
    initrdPath: join(GUEST, 'initrd.cpio.gz'),
    // The demo guest takes its addresses from here if its seed has none.
    kernelArguments: `ip=[${ipv6Address}]::[fe80::1]`,
    diskPath,
    seedPath,
    tap: spec,
  })
  const [program, ...args] = monitor.unitSpec(machine).command
  const qemu = spawn(program, args, { uid: userId, gid: userId, stdio: ['pipe', 'pipe', 'inherit'] })
  let output = ''
  qemu.stdout.on('data', (chunk: Buffer) => (output += chunk.toString('latin1')))
  atEnd(t, () => rm(runDirectory, { recursive: true }))
  atEnd(t, () => monitor.close())
  atEnd(t, () => endChild(qemu))
  await until(
    () => output,
    (text) => text.includes('demo guest ready'),
    BOUND_MS,
  )
  assert.ok(qemu.pid !== undefined)
  return {
    pid: qemu.pid,
    type: (line) => void qemu.stdin.write(`${line}\n`),
    said: () => output,
    atEnd: (act) => atEnd(t, act),
  }
}

const digest = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

/** The guest makes a file and reports its digest; the host fetches the file. */
async function download(guest: RunningGuest, address: string): Promise<void> {
  const from = guest.said().length
  guest.type(
    `dd if=/dev/urandom of=/srv/www/large bs=4096 count=${PAYLOAD_BYTES / 4096}; sha256sum /srv/www/large`,
  )
  const said = await until(
    () => guest.said().slice(from),
    (text) => /[0-9a-f]{64} {2}\/srv/.test(text),
    BOUND_MS,
  )
  const host = address.includes(':') ? `[${address}]` : address
  const response = await fetch(`http://${host}/large`, { signal: AbortSignal.timeout(BOUND_MS) })
  const body = new Uint8Array(await response.arrayBuffer())
  assert.equal(body.length, PAYLOAD_BYTES)
  assert.equal(digest(body), /([0-9a-f]{64}) {2}\/srv/.exec(said)?.[1])
}

/**
 * The host sends half of some bytes, and the rest later over the same connection; the guest reports the digest of all.
 */
async function upload(guest: RunningGuest, address: string, port: number): Promise<() => Promise<void>> {
  const payload = randomBytes(PAYLOAD_BYTES)
  const from = guest.said().length
  guest.type(`nc -l -p ${port} | sha256sum &`)
  const socket = await until(
    () => connected(address, port),
    (found) => found !== undefined,
    BOUND_MS,
  )
  assert.ok(socket !== undefined)
  guest.atEnd(() => socket.destroy())
  socket.write(payload.subarray(0, PAYLOAD_BYTES / 2))
  return async () => {
    socket.end(payload.subarray(PAYLOAD_BYTES / 2))
    const said = await until(
      () => guest.said().slice(from),
      (text) => /[0-9a-f]{64} {2}-/.test(text),
      BOUND_MS,
    )
    assert.equal(/([0-9a-f]{64}) {2}-/.exec(said)?.[1], digest(payload))
  }
}

async function connected(host: string, port: number) {
  const socket = connect({ host, port })
  try {
    await once(socket, 'connect')
    return socket
  } catch {
    return undefined
  }
}

test(
  'a guest whose tap was deleted or renamed continues with the new one undisturbed',
  { skip },
  async (t) => {
    const host = new Place()
    const taps = new RoutedTaps({ storeId: 'store-1' })
    atEnd(t, () => taps.close())
    atEnd(t, () => taps.remove(device, id))
    const spec: TapSpec = { ...tapSpec, bandwidth: { receiveMbitPerSecond: 500, transmitMbitPerSecond: 500 } }
    await taps.ensure(spec)
    const guest = await startGuest(t, spec)
    const lookAround = async (): Promise<void> => {
      for (const address of [ipv4Address, ipv6Address]) {
        await until(
          () => host.canPing(address),
          (answered) => answered,
        )
        await download(guest, address)
      }
    }
    await taps.ensureAttached(spec, guest.pid)
    await lookAround()

    for (const [port, address, ...harm] of [
      [7001, ipv4Address, 'del', device],
      [7002, ipv6Address, 'set', device, 'name', 'elsewhere0'],
    ] as const) {
      const finish = await upload(guest, address, port)
      await run(['ip', 'link', ...harm])
      await taps.ensure(spec)
      const lost = await taps.inspect(device, id)
      assert.equal(lost.kind === 'present' && lost.facts.attached, false)
      await taps.ensureAttached(spec, guest.pid)
      const found = await taps.inspect(device, id)
      assert.equal(found.kind === 'present' && found.facts.attached, true)
      await finish()
      await lookAround()
    }
    assert.equal(guest.said().match(/demo guest ready/g)?.length, 1)
  },
)
