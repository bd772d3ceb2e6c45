import assert from 'node:assert/strict'
import { closeSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { HostFault } from '../../src/core/errors.ts'
import { consoleName } from '../../src/core/unit/unit-spec.ts'
import { run } from './run.ts'
import { hasErrno } from '../../src/host/ffi/errno-error.ts'
import { ConsoleMasters } from '../../src/host/pty/console-masters.ts'
import { openMaster, slavePath } from '../../src/host/pty/open-pty.ts'
import { silentLog } from '../../src/log/log.ts'
import { atEnd } from '../contract/at-end.ts'
import { TerminalGuest } from '../contract/terminal-guest.ts'
import { until } from '../contract/until.ts'
import { MemoryDescriptorStore } from '../fakes/memory-descriptor-store.ts'
import { skip } from './in-lab.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../src/core/ids.ts'

const [web, other] = ['web-1', 'web-2'] as [VmId, VmId]

/** Consoles whose run directory has room for only one history. */
async function stage(t: TestContext) {
  const folder = mkdtempSync('/run/full-test-')
  const store = new MemoryDescriptorStore()
  const consoles = new ConsoleMasters({ store, runDirectory: folder, log: silentLog })
  let isMounted = false
  atEnd(t, async () => {
    consoles.close()
    store.close()
    if (isMounted) await run(['umount', '--lazy', folder])
    rmSync(folder, { recursive: true })
  })
  const size = Math.ceil(1.5 * limits.consoleHistoryBytes)
  await run(['mount', '-t', 'tmpfs', '-o', `size=${size}`, 'none', folder])
  isMounted = true
  return { folder, store, consoles }
}

test(
  'a full run directory is reported when a console is made, and harms no other console',
  { skip },
  async (t) => {
    const { folder, consoles } = await stage(t)
    const guest = new TerminalGuest(await consoles.ensureMaster(web))
    atEnd(t, () => guest.close())
    await assert.rejects(consoles.ensureMaster(other), (error) => {
      assert.ok(error instanceof HostFault && error.code === 'console_unprotected')
      assert.ok(hasErrno(error.cause, 'ENOSPC'))
      return true
    })
    assert.deepEqual(await consoles.list(), [web])
    assert.deepEqual(readdirSync(`${folder}/console`), [web])
    // All of its history is there already.
    await guest.say('x'.repeat(2 * limits.consoleHistoryBytes))
    await until(
      () => consoles.session(web)?.output.end,
      (end) => end === 2 * limits.consoleHistoryBytes,
    )
  },
)

test('a running VM whose history finds no room is adopted nevertheless', { skip }, async (t) => {
  const { folder, store, consoles } = await stage(t)
  const master = openMaster()
  await store.store(consoleName(web), master)
  const guest = new TerminalGuest(slavePath(master))
  atEnd(t, () => guest.close())
  closeSync(master)
  writeFileSync(`${folder}/filler`, Buffer.alloc(limits.consoleHistoryBytes))
  assert.equal(await consoles.adopt(), 1)
  await guest.say('hello')
  await until(
    () => consoles.session(web)?.output.end,
    (end) => end === 5,
  )
})
