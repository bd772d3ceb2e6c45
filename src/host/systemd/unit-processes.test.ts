import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { endProcesses, processesIn } from './unit-processes.ts'

const never = new AbortController().signal

/** A folder that looks like a control group of a kernel without cgroup.kill. */
function groupOf(
  t: TestContext,
  procs: string,
): { readonly group: string; readonly become: (procs: string) => void } {
  const group = mkdtempSync(join(tmpdir(), 'group-'))
  t.after(() => rmSync(group, { recursive: true }))
  const become = (text: string): void => writeFileSync(join(group, 'cgroup.procs'), text)
  become(procs)
  return { group, become }
}

test('a group that is not there holds no processes, and ending them is done', async () => {
  assert.deepEqual(await processesIn('/no/such/group'), [])
  await endProcesses('/no/such/group', never)
})

test('processes are told as the kernel lists them', async (t) => {
  assert.deepEqual(await processesIn(groupOf(t, '12\n345\n').group), [12, 345])
  assert.deepEqual(await processesIn(groupOf(t, '').group), [])
})

test('where the kernel cannot kill a group its processes are killed one by one', async (t) => {
  const children = [1, 2].map(() => spawn('sleep', ['infinity'], { stdio: 'ignore' }))
  t.after(() => children.forEach((child) => child.kill('SIGKILL')))
  const { group, become } = groupOf(t, children.map(({ pid }) => `${pid}\n`).join(''))
  const ended = Promise.all(children.map((child) => once(child, 'exit'))).then((exits) => {
    become('')
    return exits.map(([, signal]) => signal as string)
  })
  await endProcesses(group, never)
  assert.deepEqual(await ended, ['SIGKILL', 'SIGKILL'])
})

test('a process that does not end is waited for until the signal, and one that cannot be named is not our own', async (t) => {
  // 0: a process outside of our pid namespace. Killing it as such would kill this test.
  const { group } = groupOf(t, '0\n')
  const controller = new AbortController()
  const reason = new Error('the step is overdue')
  setImmediate(() => controller.abort(reason))
  await assert.rejects(endProcesses(group, controller.signal), reason)
})
