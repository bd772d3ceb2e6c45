import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { makePki, SHA } from '../daemon/support/controller-host.ts'
import { eventually } from '../daemon/support/eventually.ts'
import { startCtlStage } from './support/ctl-stage.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { Pki } from '../daemon/support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const id = 'job-1' as VmId
const IMAGES = `--rootfs https://i.example/root#sha256=${SHA} --kernel https://i.example/k#sha256=${SHA}`

test('a VM is created with what follows from its end, and each part changes by itself', async (t) => {
  const stage = await startCtlStage(t, pki)
  const exit = () => stage.host.store.vms.get(id)?.desired.exit
  const run = async (line: string): Promise<void> => {
    const { status, err } = await stage.run(line)
    assert.equal(status, 0, err)
  }
  await run(`vm create ${id} ${IMAGES} --restart on_failure --delete-after 1h`)
  assert.deepEqual(exit(), { restartPolicy: 'on_failure', deleteAfterSeconds: 3600 })
  await run(`vm create ${id} ${IMAGES} --restart on_failure --delete-after 1h`)
  await run(`vm exit ${id} --delete-on-exit yes`)
  assert.deepEqual(exit(), { restartPolicy: 'on_failure', deleteAfterSeconds: 3600, deleteOnExit: true })
  await run(`vm exit ${id} --delete-after never --restart never`)
  assert.deepEqual(exit(), { restartPolicy: 'never', deleteOnExit: true })
  await run(`vm exit ${id} --restart always --delete-on-exit no`)
  assert.equal(exit(), undefined)
})

test('a time of 0 before a deletion is refused: it looks like "never", and would delete the VM', async (t) => {
  const stage = await startCtlStage(t, pki)
  const { status, err } = await stage.run(`vm exit ${id} --delete-after 0`)
  assert.equal(status, 2)
  assert.match(
    err,
    /--delete-after 0 would delete it as soon as it stops\n {2}write 1s if you want that, or never/,
  )
})

test('a dry run of a change stores nothing', async (t) => {
  const stage = await startCtlStage(t, pki)
  await stage.run(`vm create ${id} ${IMAGES}`)
  const { status, out } = await stage.run(`vm exit ${id} --restart never --dry-run`)
  assert.equal(status, 0)
  assert.match(out, /restart_policy/)
  assert.equal(stage.host.store.vms.get(id)?.desired.exit, undefined)
})

test('the last exit is shown with its cause and its last lines, and a start asks for another', async (t) => {
  const stage = await startCtlStage(t, pki)
  await stage.run(`vm create ${id} ${IMAGES} --restart never --delete-after 1h`)
  const { store } = stage.host
  const generation = store.vms.get(id)?.generations.desired
  assert.ok(generation !== undefined)
  store.vms.recordProgress(id, {
    observed: {
      state: 'stopped',
      sinceMs: 1,
      restarts: 2,
      endedAtPower: generation,
      lastExit: {
        atMs: Date.now(),
        cause: 'powered_off',
        because: 'the guest powered off',
        ranMs: 5000,
        exitStatus: 0,
        consoleLines: ['the job is done', 'reboot: Power down'],
      },
    },
    observedGeneration: generation,
    nowMs: 1,
  })
  const { out } = await stage.run(`vm get ${id}`)
  assert.match(out, /last exit +.*ago: the guest powered off\n/)
  assert.match(out, /last lines +the job is done\n +reboot: Power down\n/)
  assert.match(out, /state +stopped for .*: its guest ended, and vmhostctl vm start job-1 starts it\n/)
  const { err } = await stage.run(`vm wait ${id} --for running --timeout 0`)
  assert.match(err, /\n {2}its guest ended and is not started again: vmhostctl vm start job-1 starts it\n/)
  assert.match(out, /restarts +2\n/)
  assert.match(out, /deletion +1 h after it was stopped\n/)
  const { json } = JSON.parse(`{"json":${(await stage.run(`vm get ${id} --json`)).out}}`) as {
    json: { observed: { last_exit: object } }
  }
  assert.deepEqual(Object.keys(json.observed.last_exit).toSorted(), [
    'at',
    'cause',
    'console',
    'detail',
    'exit_status',
    'ran_seconds',
  ])
  await stage.run(`vm start ${id}`)
  assert.equal(store.vms.get(id)?.powerGeneration, generation + 1)
})

test('the wait of a start fails when the guest ends for good before it is seen running', async (t) => {
  const stage = await startCtlStage(t, pki)
  await stage.run(`vm create ${id} ${IMAGES} --restart never`)
  const { store, waits } = stage.host
  const { result } = stage.start(`vm start ${id} --wait`)
  await eventually(() => waits.size === 1)
  const { generations, powerGeneration: endedAtPower } = store.vms.get(id) ?? assert.fail('it is on record')
  store.vms.recordProgress(id, {
    observed: { state: 'stopped', sinceMs: 1, endedAtPower },
    observedGeneration: generations.desired,
    nowMs: 1,
  })
  const { status, err } = await result
  assert.equal(status, 1)
  assert.match(err, /vmhostctl: job-1: its guest ended, and is not started again\n/)
})
