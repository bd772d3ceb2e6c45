import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync } from 'node:fs'
import path from 'node:path'

/** Whether systemd runs this machine (sd_booted(3)). */
export function isSystemdHost(): boolean {
  return existsSync('/run/systemd/system')
}

/**
 * A cgroup of its own for a lab, in cgroup v2 and in systemd's own v1 hierarchy where a machine has that.
 *
 * Where systemd runs the machine it gives each container a scope. Elsewhere systemd-nspawn makes the cgroup
 * `payload` below the caller's own, so two labs would share one tree and kill each other's services.
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

/** A cgroup is removed with rmdir, children first; its files are no files to be deleted. */
function removeTree(folder: string): void {
  if (!existsSync(folder)) return
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) removeTree(path.join(folder, entry.name))
  }
  rmdirSync(folder)
}
