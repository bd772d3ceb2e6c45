import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { NOTHING_IGNORED } from '../../src/host/ebpf/ignored-traffic.ts'
import { RingBuffer } from '../../src/host/ebpf/ring-buffer.ts'
import { ErrnoError } from '../../src/host/ffi/errno-error.ts'
import { run } from './run.ts'
import { LAYOUT } from '../../src/host/ebpf/traffic-maps.ts'
import { TrafficProgram } from '../../src/host/ebpf/traffic-program.ts'
import { Rtnetlink } from '../../src/host/netlink/rtnetlink.ts'
import { RoutedTaps } from '../../src/host/tap/routed-taps.ts'
import { atEnd } from '../contract/at-end.ts'
import { tapSpec } from '../contract/taps-stage.ts'
import { Place } from './network-stage.ts'
import { PacketSocket } from './packet-socket.ts'
import { ipv4, IP, ipv6, tcp } from './packets.ts'
import { bpfDirectory, OBJECT, setStage, userId, Wire } from './program-stage.ts'

const original = readFileSync(OBJECT)
/** Bytes after the sections of an ELF file have no meaning, so this is another build of the same program. */
const upgraded = Buffer.concat([original, Buffer.from('another build')])

const open = (directory: string, object = original): TrafficProgram =>
  new TrafficProgram({ object: () => object, directory })

/** Runs a daemon that is gone when this resolves: it watches a device, and holds frames or lets them flow. */
async function formerDaemon(directory: string, ifindex: number, frames: 'flowing' | 'held'): Promise<void> {
  const script = `import { readFileSync } from 'node:fs'
    import { TrafficProgram } from '${path.resolve(import.meta.dirname, '../../src/host/ebpf/traffic-program.ts')}'
    const program = new TrafficProgram({ object: () => readFileSync('${OBJECT}'), directory: '${directory}' })
    await program.attach(${ifindex})
    program.startHold(${ifindex})
    program.setGuest(${ifindex}, { userId: ${userId}, frames: '${frames}' })`
  await run([process.execPath, '--input-type=module', '-e', script])
}

test('a device without a guest passes everything, and counts nothing', { skip }, async (t) => {
  const { wire, program, send, counted } = await setStage(t)
  program.deleteGuest(wire.ifindex)
  for (const frame of [ipv4({}), ipv6({}), ipv4({ protocol: IP.tcp, payload: tcp(['rst']) })])
    assert.equal(send(frame), 'passed')
  assert.equal(counted(), 0)
  assert.deepEqual(program.guests(), [])
})

test('packets that come while no daemon runs are counted', { skip }, async (t) => {
  const { send } = await setStage(t)
  const directory = bpfDirectory()
  const wire = await Wire.make(t)
  await formerDaemon(directory, wire.ifindex, 'flowing')
  for (let sent = 0; sent < 3; sent++) assert.equal(send(ipv4({}), { on: wire }), 'passed')
  const next = open(directory)
  assert.equal(next.activity(userId)?.packets, 3)
  assert.deepEqual(next.guests(), [{ ifindex: wire.ifindex, userId, frames: 'flowing' }])
})

test(
  'packets that come while no daemon runs are held, and the next one knows since when',
  { skip },
  async (t) => {
    const directory = bpfDirectory()
    const wire = await Wire.make(t)
    await formerDaemon(directory, wire.ifindex, 'held')
    const before = process.hrtime.bigint()
    const socket = new PacketSocket()
    atEnd(t, () => socket.close())
    assert.equal(socket.send(wire.ifindex, ipv4({})), true)
    assert.equal(wire.passed(), 0)
    const held = open(directory).held(wire.ifindex)
    assert.ok(held?.wantedAtNs !== undefined && held.wantedAtNs > before)
    assert.deepEqual([held.frames, held.bytes], [1, ipv4({}).length])
  },
)

test('a daemon takes over the program that is there, and recognises it as its own', { skip }, async (t) => {
  const directory = bpfDirectory()
  const wire = await Wire.make(t)
  await formerDaemon(directory, wire.ifindex, 'flowing')
  assert.equal(open(directory).isAttached(wire.ifindex), true)
})

test('another build replaces the program on a device, and its counters stay', { skip }, async (t) => {
  const { send } = await setStage(t)
  const directory = bpfDirectory()
  const wire = await Wire.make(t)
  await formerDaemon(directory, wire.ifindex, 'flowing')
  send(ipv4({}), { on: wire })
  const next = open(directory, upgraded)
  assert.equal(next.isAttached(wire.ifindex), false)
  // The old one works until then.
  send(ipv4({}), { on: wire })
  await next.attach(wire.ifindex)
  assert.equal(next.isAttached(wire.ifindex), true)
  send(ipv4({}), { on: wire })
  assert.equal(next.activity(userId)?.packets, 3)
  const pins = readdirSync(path.join(directory, LAYOUT)).filter((name) => name.startsWith('program-'))
  assert.equal(pins.length, 1)
})

test('a device is forgotten with all its state, and so is a guest', { skip }, async (t) => {
  const { wire, program, send, hold } = await setStage(t)
  hold()
  program.setRestarted(userId, 5n)
  assert.equal(send(ipv4({})), 'held')
  program.deleteGuest(wire.ifindex)
  program.deleteActivity(userId)
  assert.deepEqual(
    [program.guest(wire.ifindex), program.held(wire.ifindex), program.taken(wire.ifindex)],
    [undefined, undefined, undefined],
  )
  assert.deepEqual([program.activity(userId), program.restartedNs(userId)], [undefined, undefined])
  // Safe to repeat.
  program.deleteGuest(wire.ifindex)
  program.deleteActivity(userId)
})

test('a program that was removed from a device is missed, and attached again', { skip }, async (t) => {
  const { wire, program } = await setStage(t)
  assert.equal(program.isAttached(wire.ifindex), true)
  await run(['tc', 'filter', 'del', 'dev', wire.name, 'egress'])
  assert.equal(program.isAttached(wire.ifindex), false)
  await program.attach(wire.ifindex)
  await run(['tc', 'qdisc', 'del', 'dev', wire.name, 'clsact'])
  assert.equal(program.isAttached(wire.ifindex), false)
  await program.attach(wire.ifindex)
  assert.equal(program.isAttached(wire.ifindex), true)
})

test('a device that is gone has no program, and none can be attached', { skip }, async (t) => {
  const { program } = await setStage(t)
  assert.equal(program.isAttached(999_999), false)
  await assert.rejects(() => program.attach(999_999), { code: 'ENODEV' })
})

test('a filter of somebody else stays, and runs after ours', { skip }, async (t) => {
  const { wire, program } = await setStage(t)
  const theirs = await Wire.make(t)
  const everyPacket = ['bpf', 'bytecode', '1,6 0 0 4294967295,']
  const action = ['action', 'mirred', 'egress', 'redirect', 'dev', theirs.name]
  const place = ['egress', 'pref', '40000', 'protocol', 'all']
  await run(['tc', 'filter', 'add', 'dev', wire.name, ...place, ...everyPacket, ...action])
  await program.attach(wire.ifindex)
  const socket = new PacketSocket()
  atEnd(t, () => socket.close())
  socket.send(wire.ifindex, ipv4({}))
  assert.deepEqual([wire.passed(), theirs.passed()], [0, 1])
  assert.equal(program.activity(userId)?.packets, 1)
})

test('an unreadable program is refused with the reason, and not tried on every use', { skip }, async () => {
  let asked = 0
  const object = (): Uint8Array => {
    asked += 1
    return original.subarray(0, 1000)
  }
  const program = new TrafficProgram({ object, directory: bpfDirectory() })
  await assert.rejects(() => program.attach(1), /loading the BPF program: elf: /)
  assert.throws(() => program.guests(), /loading the BPF program: elf: /)
  assert.equal(asked, 1)
})

test('a program that the kernel refuses is reported with the words of its verifier', { skip }, async () => {
  const broken = Buffer.from(original)
  // Overwrites the opcode of the first instruction that ends a function with an invalid one.
  broken[broken.indexOf(Buffer.from('9500000000000000', 'hex'))] = 0xff
  const program = open(bpfDirectory(), broken)
  await assert.rejects(
    () => program.attach(1),
    /loading the BPF program: .*PROG LOAD LOG --; last insn is not an exit/,
  )
})

async function makeTap(t: TestContext): Promise<{ taps: RoutedTaps; ifindex: number }> {
  const taps = new RoutedTaps({ storeId: 'store-1' })
  await taps.ensure(tapSpec)
  const links = new Rtnetlink()
  const ifindex = links.link(tapSpec.device)?.index ?? assert.fail('no tap')
  links.close()
  atEnd(t, () => taps.close())
  atEnd(t, () => taps.remove(tapSpec.device, tapSpec.vmId))
  return { taps, ifindex }
}

test('on a tap that no process holds, packets from the host are seen and held', { skip }, async (t) => {
  const { ifindex } = await makeTap(t)
  const program = open(bpfDirectory())
  await program.attach(ifindex)
  program.startHold(ifindex)
  program.setGuest(ifindex, { userId, frames: 'held' })
  const host = new Place()
  for (const address of [tapSpec.ipv4Address, tapSpec.ipv6Address]) await host.send(address ?? '')
  assert.equal(program.activity(userId)?.packets, 2)
  assert.equal(program.held(ifindex)?.frames, 2)
})

test('limits of a tap come and go beside the program', { skip }, async (t) => {
  const { taps, ifindex } = await makeTap(t)
  const program = open(bpfDirectory())
  await program.attach(ifindex)
  const limited = { receiveMbitPerSecond: 100, transmitMbitPerSecond: 100 }
  for (const bandwidth of [limited, {}, limited]) {
    await taps.ensure({ ...tapSpec, ...bandwidth })
    assert.equal(program.isAttached(ifindex), true)
  }
})

/** Counts the descriptors of BPF objects, and their mapped memory, in this process. */
const opened = (): number =>
  readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).includes('bpf')
    } catch {
      return false
    }
  }).length
const mapped = (): number => readFileSync('/proc/self/maps', 'utf8').split('bpf-map').length - 1

test('a program that cannot be taken over leaves no descriptor open', { skip }, () => {
  const directory = bpfDirectory()
  const whole = open(directory)
  whole.guests()
  const before = opened()
  assert.ok(before > 0)
  const settings = path.join(directory, LAYOUT, 'settings')
  rmSync(settings)
  assert.throws(() => open(directory).guests(), /settings is missing beside its program/)
  assert.equal(opened(), before)
})

test('a program whose settings cannot be written leaves no descriptor open', { skip }, () => {
  const directory = bpfDirectory()
  open(directory).guests()
  const before = opened()
  const tooMany = Array.from({ length: 60_000 }, (_, at) => at + 1)
  const ignored = { ...NOTHING_IGNORED, ignorePortsTcp: tooMany }
  const program = new TrafficProgram({ object: () => original, directory, ignored })
  assert.throws(() => program.guests(), { code: 'E2BIG' })
  assert.equal(opened(), before)
})

test('a ring of another size than declared leaves nothing mapped', { skip }, () => {
  const { eventsFd } = open(bpfDirectory())
  const before = mapped()
  assert.throws(() => new RingBuffer(eventsFd, 4 * limits.trafficEventsBytes), ErrnoError)
  assert.equal(mapped(), before)
})
