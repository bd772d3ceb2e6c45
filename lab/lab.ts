/*
 * The lab: a real host for the daemon, booted in a container on this machine. It has its own systemd as PID 1, its own
 * network, journal and users, a pool that can reflink, and QEMU. Everything in it is thrown away with it.
 */
import { mkdirSync, rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { withLock } from '../tools/lock.ts'
import { runChecked } from '../tools/process.ts'
import type { RunOptions, RunResult } from '../tools/process.ts'
import { step } from '../tools/step.ts'
import { boot, mountPoint, mountRoot, reboot } from './boot.ts'
import { endCgroups, removeCgroups } from './cgroups.ts'
import { execIn } from './exec.ts'
import { ensureGuest } from './guest.ts'
import { ensureLayer, layerTree } from './layer.ts'
import { freeLoops, isMounted, ownDevices } from './loops.ts'
import { furnish } from './pool.ts'
import { ensureRoot } from './root.ts'
import { isAlive, labFolder, labNames, readState, writeState } from './state.ts'
import type { RebootOptions } from './boot.ts'
import type { LabState, ProcessRef } from './state.ts'

export { attachTo, besideLab, besideLabs, LAB_IN_ENVIRONMENT, LAB_NODE, labsBeside } from './exec.ts'
export { guardLab } from './guard.ts'
export { LAB_POOL } from './pool.ts'
export type { LabState } from './state.ts'

/** Folder of the demo guest's vmlinuz, initrd.cpio.gz and rootfs.raw inside a lab. */
export const LAB_GUEST = '/srv/guest'

const END_BOUND_MS = 5000
const LOOK_EVERY_MS = 20

/** Packages of the lab's distribution beyond those of every lab. */
export type LabExtras = { readonly packages?: readonly string[] }

/**
 * Boots a lab, or returns the one that already runs under that name. Several labs may run at once. Builds first what
 * the cache does not have: root, guest images, further packages.
 */
export async function labUp(name = 'main', { packages = [] }: LabExtras = {}): Promise<LabState> {
  if (process.getuid?.() !== 0)
    throw new Error('a lab needs root: it mounts file systems and boots a container')
  const folder = labFolder(name)
  const cached = await ensureRoot()
  const guest = await ensureGuest(cached)
  const layers = packages.length === 0 ? [] : [await ensureLayer(cached, packages)]
  return withLock(`lab-${name}`, async () => {
    const current = findLab(name)
    if (current !== undefined) return current
    await tearDown(name)
    return step(`boot the lab ${name}`, async () => {
      mkdirSync(folder, { recursive: true })
      const startedAt = new Date().toISOString()
      const planned = { name, folder, bases: [cached.folder, guest, ...layers], startedAt }
      writeState(planned)
      try {
        await mountRoot([...layers.map(layerTree), cached.root], folder)
        const state = await boot(planned, guest)
        await furnish(state)
        return state
      } catch (error) {
        await tearDown(name)
        throw error
      }
    })
  })
}

/** Reboots a lab; returns its state once everything runs again. Its root and its pool stay. */
export async function labReboot(lab: LabState, options: RebootOptions): Promise<LabState> {
  const guest = await ensureGuest(await ensureRoot())
  return withLock(`lab-${lab.name}`, () => reboot(lab, guest, options))
}

/** Returns a running lab by name; undefined if there is none. */
export function findLab(name = 'main'): LabState | undefined {
  const state = readState(name)
  return state !== undefined && isAlive(state.leader) ? state : undefined
}

/** Returns every lab that has left something on this machine, with whether it runs. */
export function listLabs(): { name: string; state: LabState | undefined; running: boolean }[] {
  return labNames().map((name) => ({ name, state: readState(name), running: findLab(name) !== undefined }))
}

/** Runs a command as root inside a lab. It sees only `env` of our environment. A bad exit status does not throw. */
export function labExec(
  lab: LabState,
  argv: readonly string[],
  options: RunOptions = {},
): Promise<RunResult> {
  return execIn(lab, argv, options)
}

/** Ends a lab with everything in it, and leaves nothing of it on this machine. Safe to repeat. */
export async function labDown(lab: LabState | string): Promise<void> {
  const name = typeof lab === 'string' ? lab : lab.name
  await withLock(`lab-${name}`, () => tearDown(name))
}

async function tearDown(name: string): Promise<void> {
  const folder = labFolder(name)
  const root = mountPoint(folder)
  const state = readState(name)
  const devices = state === undefined ? new Set<string>() : ownDevices(state, root)
  // Killing PID 1 of a process id namespace ends everything in it; systemd-nspawn then cleans up and ends by itself.
  if (state !== undefined) await end(state)
  await endCgroups(name, END_BOUND_MS)
  await freeLoops(devices)
  if (isMounted(root)) await runChecked(['umount', '--recursive', root])
  removeCgroups(name)
  rmSync(folder, { recursive: true, force: true })
}

async function end({ name, leader, container }: LabState): Promise<void> {
  if (leader !== undefined) await killAndWait(name, leader)
  if (container === undefined) return
  if (leader !== undefined && (await hasEnded(container))) return
  await killAndWait(name, container)
}

async function killAndWait(name: string, ref: ProcessRef): Promise<void> {
  if (isAlive(ref)) process.kill(ref.pid, 'SIGKILL')
  if (!(await hasEnded(ref))) throw new Error(`process ${ref.pid} of the lab ${name} does not end`)
}

async function hasEnded(ref: ProcessRef): Promise<boolean> {
  const deadline = performance.now() + END_BOUND_MS
  while (isAlive(ref)) {
    if (performance.now() > deadline) return false
    await sleep(LOOK_EVERY_MS)
  }
  return true
}
