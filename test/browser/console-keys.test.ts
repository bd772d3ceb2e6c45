/** The keys below the terminal of the console page, on a device without a keyboard of its own. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '../contract/until.ts'
import { skip } from './support/browser.ts'
import { openConsole } from './support/console-tab.ts'
import { createVm, hostStages } from './support/host-stage.ts'
import type { VmId } from '../../src/core/ids.ts'

const stage = hostStages()
const VM = 'web-1' as VmId
const PHONE = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true }

test(
  'a phone has the keys that its keyboard lacks, and the terminal keeps the focus',
  { skip },
  async (t) => {
    const staged = await stage(t)
    const { consoles } = staged.host.host
    await createVm(staged.host, VM)
    await consoles.ensureMaster(VM)
    const visited = await staged.visit(undefined, PHONE)
    const tab = await openConsole(visited, VM)
    await tab.isIn('attached')
    const keys = visited.page.getByRole('group', { name: 'Keys' })
    const tap = (name: string) => keys.getByRole('button', { name }).tap()
    const typed = (wanted: string) =>
      until(
        () => consoles.session(VM)?.terminal.typed,
        (text) => text === wanted,
      )
    await tab.type('l')
    await tap('Tab')
    await tab.type('s')
    await tap('Ctrl')
    await tab.type('cc')
    await tap('Up')
    await tap('Esc')
    await typed('l\ts\x03c\x1b[A\x1b')
    // The guest asks for the other form of cursor keys.
    consoles.say(VM, '\x1b[?1hasked')
    await tab.shows('asked')
    await tap('Left')
    await typed('l\ts\x03c\x1b[A\x1b\x1bOD')
  },
)

test('the keys are not there beside a mouse, nor without a terminal', { skip }, async (t) => {
  const staged = await stage(t)
  await createVm(staged.host, VM)
  await staged.host.host.consoles.ensureMaster(VM)
  const wide = await staged.visit()
  await (await openConsole(wide, VM)).isIn('attached')
  assert.ok(await wide.page.locator('#keys').isHidden())
  const phone = await staged.visit(undefined, PHONE)
  await openConsole(phone, 'nothing')
  await phone.page.locator('#notice').waitFor()
  assert.ok(await phone.page.locator('#keys').isHidden())
})
