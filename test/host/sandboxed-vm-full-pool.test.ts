/** A guest in its sandbox that writes to a full pool: it pauses, lives, and loses nothing. */
import assert from 'node:assert/strict'
import { open } from 'node:fs/promises'
import { test } from 'node:test'
import { until } from '../contract/until.ts'
import { fillPool } from './fill-pool.ts'
import { skip } from './in-lab.ts'
import { BOOT_MS, id, stageOf } from './sandboxed-vm-stage.ts'

const MIB = 1024 * 1024
const WRITTEN = Buffer.from('vmhostd\n'.repeat(MIB))
const AT_MIB = 60
const never = new AbortController().signal

async function readBack(path: string): Promise<Buffer> {
  const file = await open(path)
  try {
    const { buffer } = await file.read({ buffer: Buffer.alloc(WRITTEN.length), position: AT_MIB * MIB })
    return buffer
  } finally {
    await file.close()
  }
}

for (const queue of ['one request after the other', 'many requests at once'] as const) {
  test(
    `data that a guest wrote while the pool was full is whole when there is room, ${queue}`,
    { skip },
    async (t) => {
      const { monitor, units, start, said, ask, mountPoint } = await stageOf(t)
      // The root is elsewhere, so only the test uses the disk.
      const { diskPath } = await start({ kernelArguments: 'root=none' })
      await until(said, (text) => text.includes('demo guest ready'), BOOT_MS)
      await ask(`yes vmhostd | head -c ${WRITTEN.length} > /tmp/written`)
      const unit = await units.inspect(id)
      const makeRoom = await fillPool(mountPoint)
      const how = queue === 'many requests at once' ? 'conv=notrunc,fsync' : 'oflag=direct conv=notrunc'
      const writing = ask(`dd if=/tmp/written of=/dev/vda bs=64k seek=${AT_MIB * 16} ${how} 2>&1 | tail -n 1`)
      await until(
        () => monitor.inspect(id),
        ({ kind }) => kind === 'stalled',
        BOOT_MS,
      )
      for (const _ of [1, 2, 3])
        await assert.rejects(monitor.ensureRunning(id, never), { code: 'disk_io_error' })
      assert.equal((await monitor.inspect(id)).kind, 'stalled')
      await makeRoom()
      await monitor.ensureRunning(id, never)
      assert.match(await writing, /^128\+0 records out$/)
      assert.ok((await readBack(diskPath)).equals(WRITTEN), 'the disk holds something else')
      assert.deepEqual(await units.inspect(id), unit, 'the guest was restarted')
      assert.doesNotMatch(said(), /I\/O error/)
    },
  )
}
