import assert from 'node:assert/strict'
import { after, before } from 'node:test'
import { closeController, remove } from '../../lab/inside/controller.ts'
import { servedPage } from '../../lab/inside/guest-page.ts'
import { installDaemon } from '../../lab/inside/shell.ts'
import { makeSleeper } from '../../lab/inside/sleepers.ts'
import type { Sleeper } from '../../lab/inside/sleepers.ts'

/**
 * Longer than the answer time of a guest that is emulated on a busy machine, so that only its traffic keeps it awake.
 */
export const IDLE_SECONDS = 2

/** Life of a guest: it ends with a boot. */
export type Life = { bootId: string; assertSame(): Promise<void> }

/**
 * Registers the VM of a file of tests: it is created before them under the installed daemon, and removed after them.
 */
export function sleeperOfTests(one: Sleeper): Life {
  const life: Life = {
    bootId: '',
    async assertSame() {
      assert.equal((await servedPage(one.ipv4)).bootId, life.bootId, 'the guest was booted again')
    },
  }
  before(async () => {
    await installDaemon()
    await makeSleeper(one, { sleepAfterIdleSeconds: IDLE_SECONDS })
    life.bootId = (await servedPage(one.ipv4)).bootId
  })
  after(async () => {
    await remove(one.id)
    closeController()
  })
  return life
}
