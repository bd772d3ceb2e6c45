/** The disk of a sandboxed guest, as it sees it while it runs: its growth, and its limits. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DiskLimits } from '../../src/core/desired.ts'
import { until } from '../contract/until.ts'
import { skip } from './in-lab.ts'
import { BOOT_MS, DISK_MIB, id, stageOf } from './sandboxed-vm-stage.ts'
import type { SandboxStage } from './sandboxed-vm-stage.ts'

const MIB = 1024 * 1024
const never = new AbortController().signal

const booted = ({ said }: SandboxStage): Promise<string> =>
  until(said, (text) => text.includes('demo guest ready'), BOOT_MS)

/** Reads that many blocks one after the other, past every cache. */
const readBlocks = (count: number, bytes: number): string =>
  `dd if=/dev/vda of=/dev/null bs=${bytes} count=${count} iflag=direct 2>&1 | head -n 1`

test('a running guest sees its disk grow, and can use the new part', { skip }, async (t) => {
  const stage = await stageOf(t)
  const { monitor, units, start, growFile, ask } = stage
  await start()
  await booted(stage)
  const unit = await units.inspect(id)
  const sectors = (mib: number): string => String((mib * MIB) / 512)
  assert.equal(await ask('cat /sys/block/vda/size'), sectors(DISK_MIB))
  await growFile(200)
  assert.equal(await ask('cat /sys/block/vda/size'), sectors(DISK_MIB))
  await monitor.ensureDiskSize(id, 200, never)
  // The guest learns of it by an interrupt, and takes its time.
  await until(
    () => ask('cat /sys/block/vda/size'),
    (size) => size === sectors(200),
    BOOT_MS,
  )
  await ask('echo there is more | dd of=/dev/vda bs=1M seek=199 conv=notrunc,fsync')
  assert.equal(
    await ask('dd if=/dev/vda bs=1M skip=199 iflag=direct 2>/dev/null | head -n 1'),
    'there is more',
  )
  assert.deepEqual(await units.inspect(id), unit, 'the guest was restarted')
})

/** Measures the guest's use of its disk during an action, and the action's time by the host's clock. */
async function metered(
  { monitor }: SandboxStage,
  doing: () => Promise<unknown>,
): Promise<{ readonly operations: number; readonly bytes: number; readonly seconds: number }> {
  const startedAt = performance.now()
  const before = await monitor.diskCounters(id)
  await doing()
  const after = await monitor.diskCounters(id)
  return {
    operations: after.readOperations + after.writeOperations - before.readOperations - before.writeOperations,
    bytes: after.readBytes + after.writtenBytes - before.readBytes - before.writtenBytes,
    seconds: (performance.now() - startedAt) / 1000,
  }
}

const limited: readonly { what: string; diskLimits: DiskLimits; blocks: number; blockBytes: number }[] = [
  { what: '100 operations a second', diskLimits: { iopsMax: 100 }, blocks: 200, blockBytes: 4096 },
  { what: '5 MiB a second', diskLimits: { mibPerSecondMax: 5 }, blocks: 40, blockBytes: 256 * 1024 },
]

test(
  'a guest never gets more of its disk than its limits, a tenth of a second and one request',
  { skip },
  async (t) => {
    const stage = await stageOf(t)
    // The root is elsewhere, so only the test uses the disk.
    await stage.start({ kernelArguments: 'root=none', diskLimits: { iopsMax: 2000 } })
    await booted(stage)
    for (const { what, diskLimits, blocks, blockBytes } of limited) {
      await stage.monitor.ensureDiskLimits(id, diskLimits, never)
      const { operations, bytes, seconds } = await metered(stage, () =>
        stage.ask(readBlocks(blocks, blockBytes)),
      )
      t.diagnostic(`${what}: ${operations} operations, ${bytes / MIB} MiB in ${seconds.toFixed(2)} s`)
      assert.ok(operations >= blocks, 'the guest did not read')
      const { iopsMax = Infinity, mibPerSecondMax = Infinity } = diskLimits
      assert.ok(
        operations <= iopsMax * (seconds + 0.1) + 1,
        `${what}: ${operations} operations in ${seconds} s`,
      )
      assert.ok(
        bytes <= mibPerSecondMax * MIB * (seconds + 0.1) + blockBytes,
        `${what}: ${bytes} bytes in ${seconds} s`,
      )
    }
  },
)

test('limits are raised and lifted under a guest that is held by them', { skip }, async (t) => {
  const stage = await stageOf(t)
  const { monitor, start, ask } = stage
  await start()
  await booted(stage)
  for (const relieved of [{ iopsMax: 100_000 }, {}]) {
    await monitor.ensureDiskLimits(id, { iopsMax: 1 }, never)
    const before = await monitor.diskCounters(id)
    // At one request per second this takes eight minutes.
    const reading = ask(readBlocks(500, 4096))
    await until(
      () => monitor.diskCounters(id),
      ({ readOperations }) => readOperations > before.readOperations,
    )
    await monitor.ensureDiskLimits(id, relieved, never)
    assert.match(await reading, /^500\+0 records in/)
  }
})
