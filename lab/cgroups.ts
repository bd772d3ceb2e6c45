import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync } from 'node:fs'
import path from 'node:path'

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
