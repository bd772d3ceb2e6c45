/**
 * Must be the first import of a host test that makes devices or firewall tables. It runs the test file again in a
 * network and mount namespace of its own, so that no effect reaches the machine, another test, or a network.
 */
import { spawnSync } from 'node:child_process'

const MARK = 'VMHOSTD_TEST_NETNS'

/** Reason why the tests of this file cannot run, for `skip`; false if they can. */
export const skip: string | false = enter()

function enter(): string | false {
  if (process.env[MARK] !== undefined) return false
  if (process.getuid?.() !== 0) return 'needs root'
  for (const program of ['unshare', 'ip', 'nft', 'ping']) {
    if (spawnSync(program, ['-V']).error !== undefined) return `needs the program ${program}`
  }
  const prepare =
    'mount -t tmpfs none /run/netns 2>/dev/null || { mkdir -p /run/netns && mount -t tmpfs none /run/netns; }; ip link set lo up; exec "$@"'
  const again = [process.execPath, ...process.execArgv, ...process.argv.slice(1)]
  const command = ['unshare', '--net', '--mount', '--', 'sh', '-c', prepare, 'sh', ...again]
  // Keeps the process id and the pipes to the test runner.
  process.execve?.('/usr/bin/env', ['env', ...command], { ...process.env, [MARK]: '1' })
  return 'needs process.execve'
}
