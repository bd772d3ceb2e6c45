import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { until } from '../../../test/contract/until.ts'
import { scriptedQmp } from '../../../test/fakes/scripted-qmp.ts'
import { qmpSocketPath } from '../../core/monitor/qemu-command.ts'
import { silentLog } from '../../log/log.ts'
import { QemuMonitor } from './qemu-monitor.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../core/ids.ts'

const id = 'web-1' as VmId

/** A monitor whose agent's port is closed, and the number of times that it was asked for it. */
async function stage(t: TestContext, answers: Record<string, unknown> = {}) {
  const runDirectory = mkdtempSync(join(tmpdir(), 'vmh-'))
  const path = qmpSocketPath(runDirectory, id)
  mkdirSync(dirname(path))
  let asked = 0
  let onAsked = (): void => {}
  const script = { 'query-chardev': [{ label: 'agent', 'frontend-open': false }], ...answers }
  const qemu = await scriptedQmp(t, path, script, {
    onCommand: (command) => {
      if (command === 'query-chardev') asked += 1
      if (command === 'qom-list') onAsked()
    },
  })
  const monitor = new QemuMonitor({
    program: '/usr/bin/qemu-system-x86_64',
    accelerator: 'tcg',
    runDirectory,
    log: silentLog,
  })
  t.after(() => {
    monitor.close()
    rmSync(runDirectory, { recursive: true })
  })
  return {
    qemu,
    asked: () => asked,
    listens: () => monitor.agentListens(id),
    report: (open: unknown, device = 'agent') => qemu.report('VSERPORT_CHANGE', { id: device, open }),
    /** Sets what happens between a question and its answer. */
    meanwhile: (act: () => void) => (onAsked = act),
  }
}

const isClosed = (isOpen: boolean): boolean => !isOpen

test('QEMU is asked once for the port of an agent, and reports its changes', async (t) => {
  const { qemu, asked, listens, report } = await stage(t)
  for (const _ of [1, 2]) assert.equal(await listens(), false)
  assert.equal(asked(), 1)
  for (const open of [true, false, true]) {
    report(open)
    await until(listens, (isOpen) => isOpen === open)
  }
  assert.equal(asked(), 1)
  qemu.report('RESET')
  await until(listens, isClosed)
  assert.equal(asked(), 2)
  report(true)
  await until(listens, (isOpen) => isOpen)
  qemu.cut()
  await until(() => listens().catch(() => true), isClosed)
  assert.equal(asked(), 3)
})

test('a report that comes between a question and its answer is newer', async (t) => {
  const { asked, listens, report, meanwhile } = await stage(t)
  meanwhile(() => report(true))
  await listens()
  assert.equal(await listens(), true)
  assert.equal(asked(), 1)
})

test('reports about other devices, and of another form, say nothing about the agent', async (t) => {
  const { asked, listens, report } = await stage(t)
  assert.equal(await listens(), false)
  for (const [open, device] of [[true, 'console'], ['yes'], [undefined]] as const) {
    const before = asked()
    report(open, device)
    await until(
      async () => [await listens(), asked()] as const,
      ([isOpen, times]) => !isOpen && times > before,
    )
  }
})

test('a guest whose port has no name is asked each time', async (t) => {
  const { asked, listens } = await stage(t, { 'qom-list': { error: { class: 'DeviceNotFound', desc: '' } } })
  for (const _ of [1, 2, 3]) assert.equal(await listens(), false)
  assert.equal(asked(), 3)
})
