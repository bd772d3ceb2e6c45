/** The monitor's command, the pool's files and the unit's sandbox, together: tests whether a guest lives in there. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { test } from 'node:test'
import { until } from '../contract/until.ts'
import { skip } from './in-lab.ts'
import { BOOT_MS, id, stageOf } from './sandboxed-vm-stage.ts'
import type { UnitSpec } from '../../src/core/unit/unit-spec.ts'

const never = new AbortController().signal

test(
  'a guest boots from its own disk in its sandbox, reads its seed, and runs as its user',
  { skip },
  async (t) => {
    const { monitor, units, start, said } = await stageOf(t)
    const machine = await start({ startPaused: true })
    await until(
      () => monitor.inspect(id),
      (state) => state.kind === 'paused',
    )
    assert.equal(said(), '')
    const written = statSync(machine.diskPath).mtimeMs
    await monitor.ensureRunning(id, never)
    // To the end of the line, because console output comes in pieces.
    const output = await until(said, (text) => /demo guest ready[^\n]*\n/.test(text), BOOT_MS)
    assert.match(output, /EXT4-fs \(vda\): mounted/)
    assert.match(output, /demo guest ready: sandboxed/)
    assert.ok(statSync(machine.diskPath).mtimeMs > written, 'mounting its disk wrote nothing to it')
    const unit = await units.inspect(id)
    assert.ok(unit.kind === 'active')
    const status = readFileSync(`/proc/${unit.mainPid}/status`, 'utf8')
    assert.match(status, /^Uid:\t700011\t700011\t700011\t700011$/m)
    assert.match(status, /^CapEff:\t0+$/m)
    assert.match(status, /^Seccomp:\t2$/m)
    const resident = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024
    assert.ok(resident < monitor.unitSpec(machine).memoryMaxBytes)
  },
)

test('a monitor that asks for io_uring gets no ring, which would pass no filter', { skip }, async (t) => {
  const { said, start, units } = await stageOf(t)
  await start({}, (spec: UnitSpec): UnitSpec => {
    const [program, ...args] = spec.command
    const edited = args.map((word) => word.replace('file.aio=threads', 'file.aio=io_uring'))
    assert.notDeepEqual(edited, args)
    return { ...spec, command: [program, ...edited] }
  })
  // QEMU does without, and the guest has mounted its disk.
  await until(said, (text) => text.includes('demo guest ready'), BOOT_MS)
  const unit = await units.inspect(id)
  assert.ok(unit.kind === 'active')
  const descriptors = `/proc/${unit.mainPid}/fd`
  const rings = readdirSync(descriptors)
    .map((fd) => readlinkSync(`${descriptors}/${fd}`))
    .filter((target) => target.includes('[io_uring]'))
  assert.deepEqual(rings, [])
})

test('the monitor gets the kernel arguments unchanged', { skip }, async (t) => {
  const { units, start } = await stageOf(t)
  const kernelArguments = 'a=${PATH} b=$PATH c=$$ d=%n%% e=${INVOCATION_ID} f="\\x41"'
  await start({ kernelArguments, startPaused: true })
  const unit = await units.inspect(id)
  assert.ok(unit.kind === 'active')
  const words = readFileSync(`/proc/${unit.mainPid}/cmdline`, 'utf8').split('\0')
  const line = words[words.indexOf('-append') + 1] ?? ''
  assert.ok(line.endsWith(` ${kernelArguments}`), line)
})

test('no core dump has the memory of a guest', { skip }, async (t) => {
  const { monitor, units, start } = await stageOf(t)
  const machine = await start({ startPaused: true })
  await until(
    () => monitor.inspect(id),
    (state) => state.kind === 'paused',
  )
  const unit = await units.inspect(id)
  assert.ok(unit.kind === 'active')
  const memory = mappings(unit.mainPid).find(({ kib }) => kib === machine.compute.memoryMib * 1024)
  // "dd": left out of core dumps (proc_pid_smaps(5)).
  assert.ok(memory?.flags.includes('dd'), `flags of the guest's memory: ${memory?.flags.join(' ')}`)
})

/** Returns the mappings of a process: sizes and kernel flags, from proc_pid_smaps(5). */
const mappings = (pid: number): { readonly kib: number; readonly flags: readonly string[] }[] =>
  [...readFileSync(`/proc/${pid}/smaps`, 'utf8').matchAll(/^Size: +(\d+) kB$[^]*?^VmFlags: (.*)$/gm)].map(
    ([, kib, flags = '']) => ({ kib: Number(kib), flags: flags.trim().split(' ') }),
  )

test('a guest whose kernel panics has ended, and so has its unit', { skip }, async (t) => {
  const { units, start, said } = await stageOf(t)
  await start({ kernelArguments: 'init=/nonexistent rdinit=/nonexistent root=/dev/none' })
  const state = await until(
    () => units.inspect(id),
    ({ kind }) => kind !== 'active',
    BOOT_MS,
  )
  assert.equal(state.kind, 'absent')
  assert.match(said(), /Kernel panic/)
})
