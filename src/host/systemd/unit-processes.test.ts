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

/** Makes a directory that looks like a control group of a kernel without cgroup.kill. */
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

test('a group that does not exist has no processes, and ending them succeeds', async () => {
  assert.deepEqual(await processesIn('/no/such/group'), [])
  await endProcesses('/no/such/group', never)
})

test('processes are returned in the order of the kernel', async (t) => {
  assert.deepEqual(await processesIn(groupOf(t, '12\n345\n').group), [12, 345])
  assert.deepEqual(await processesIn(groupOf(t, '').group), [])
})

test('if the kernel cannot kill a group, its processes are killed one by one', async (t) => {
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

test('a process that does not end is awaited until the signal aborts, and pid 0 is not killed', async (t) => {
  // 0 is a process outside of our pid namespace. Killing pid 0 would kill this test.
  const { group } = groupOf(t, '0\n')
  const controller = new AbortController()
  const reason = new Error('the step is overdue')
  setImmediate(() => controller.abort(reason))
  await assert.rejects(endProcesses(group, controller.signal), reason)
})
