import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const LOOK_EVERY_MS = 20

/** Returns whether systemd runs this machine (sd_booted(3)). */
export function isSystemdHost(): boolean {
  return existsSync('/run/systemd/system')
}

/**
 * Makes a cgroup for a lab, in cgroup v2 and in systemd's own v1 hierarchy if the machine has that.
 *
 * If systemd runs the machine, it gives each container a scope. Otherwise systemd-nspawn makes the cgroup `payload`
 * below the caller's own, so two labs would share one tree and kill each other's services.
 */
export function makeCgroups(name: string): string[] {
  if (isSystemdHost()) return []
  const folders = cgroupRoots().map((root) => path.join(root, `vmhostd-lab-${name}`))
  for (const folder of folders) mkdirSync(folder, { recursive: true })
  return folders
}

/**
 * Kills what is left in a lab's cgroups: the init of a lab whose boot was interrupted does not end with
 * systemd-nspawn. Throws if a process does not end.
 */
export async function endCgroups(name: string, boundMs: number): Promise<void> {
  const deadline = performance.now() + boundMs
  for (;;) {
    const left = cgroupRoots().flatMap((root) => processesOf(path.join(root, `vmhostd-lab-${name}`)))
    if (left.length === 0) return
    if (performance.now() > deadline)
      throw new Error(`processes ${left.join(', ')} of the lab ${name} do not end`)
    for (const pid of left) kill(pid)
    await sleep(LOOK_EVERY_MS)
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It ended between our look and our kill.
  }
}

function processesOf(folder: string): number[] {
  if (!existsSync(folder)) return []
  const below = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory())
  const own = readFileSync(path.join(folder, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean).map(Number)
  return [...own, ...below.flatMap((entry) => processesOf(path.join(folder, entry.name)))]
}

/** Removes a lab's cgroups once all its processes have ended. */
export function removeCgroups(name: string): void {
  for (const root of cgroupRoots()) removeTree(path.join(root, `vmhostd-lab-${name}`))
}

function cgroupRoots(): string[] {
  return readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' '))
    .filter(
      ([, , type, options = '']) =>
        type === 'cgroup2' || (type === 'cgroup' && options.includes('name=systemd')),
    )
    .map(([, target = '']) => target)
}

/** Removes a cgroup with rmdir, children first; its files cannot be deleted. */
function removeTree(folder: string): void {
  if (!existsSync(folder)) return
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) removeTree(path.join(folder, entry.name))
  }
  rmdirSync(folder)
}
