import assert from 'node:assert/strict'
import { after, before } from 'node:test'
import { closeController, remove } from '../../lab/inside/controller.ts'
import { servedPage } from '../../lab/inside/guest-page.ts'
import { installDaemon } from '../../lab/inside/shell.ts'
import { makeSleeper } from '../../lab/inside/sleepers.ts'
import type { Sleeper } from '../../lab/inside/sleepers.ts'

/** Longer than a guest that is emulated on a busy machine takes to answer: only what comes for it keeps it awake. */
export const IDLE_SECONDS = 2

/** The life of a guest: it ends with a boot. */
export type Life = { bootId: string; assertSame(): Promise<void> }

/** The VM of a file of tests: made before them under the installed daemon, and gone after them. */
export function sleeperOfTests(one: Sleeper): Life {
  const life: Life = {
    bootId: '',
    async assertSame() {
      assert.equal((await servedPage(one.ipv4)).bootId, life.bootId, 'the guest was booted anew')
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
