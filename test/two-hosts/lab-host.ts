/** One of two hosts: a lab with the installed daemon, seen from this machine. */
import assert from 'node:assert/strict'
import { copyFileSync, readFileSync } from 'node:fs'
import { ControllerClient } from '../../lab/controller-client.ts'
import { findLab, labExec, LAB_NODE, labsBeside } from '../../lab/lab.ts'
import type { LabState } from '../../lab/lab.ts'

export const TLS = '/etc/vmhostd/tls'
const COMMAND_BOUND_MS = 120_000

const [first, second] = labsBeside().map((name) => findLab(name))

/** Reason why tests of two hosts cannot run here, or false. */
export const skip =
  first === undefined || second === undefined ? 'not beside two labs: ./dev test does that, as root' : false

export class LabHost {
  readonly lab: LabState
  /** Name of the node: `host.id`, which is the name of the host by default. */
  readonly node: string
  /** Address at which the other host reaches this one. */
  readonly address: string
  readonly controller: ControllerClient

  /** Address at which the controller and the clients of guests reach this host. */
  readonly uplink: string

  constructor(lab: LabState, address: string, uplink: string) {
    this.lab = lab
    this.node = lab.name
    this.address = address
    this.uplink = uplink
    const read = (name: string): Buffer => readFileSync(`${this.root}${TLS}/${name}`)
    this.controller = new ControllerClient(uplink, () => ({
      ca: read('ca.crt'),
      cert: read('controller.crt'),
      key: read('controller.key'),
    }))
  }

  /** Runs a command as root on this host. Returns its output; throws if it fails. */
  async run(...argv: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await labExec(this.lab, argv, { timeoutMs: COMMAND_BOUND_MS })
    assert.equal(code, 0, `${argv.join(' ')}: ${stderr}${stdout}`)
    return stdout.trim()
  }

  /** Root of this host in the file system of this machine, with everything that is mounted there. */
  get root(): string {
    return `/proc/${this.lab.leader?.pid}/root`
  }

  /** Copies a file to the same path of another host. */
  copyTo(other: LabHost, path: string): void {
    copyFileSync(this.root + path, other.root + path)
  }

  /** Installs the newest package, sets the host up, and starts the daemon. */
  async install(): Promise<void> {
    await this.run(LAB_NODE, '/src/lab/inside/install.ts')
  }

  /** Kills the daemon, and keeps systemd from starting it again. */
  async killDaemon(): Promise<void> {
    await this.run('systemctl', 'kill', '--signal=KILL', 'vmhostd')
    await this.run('systemctl', 'stop', 'vmhostd')
  }

  async startDaemon(): Promise<void> {
    // systemd waits longer after each crash, until its count of restarts is reset.
    await labExec(this.lab, ['systemctl', 'reset-failed', 'vmhostd'])
    await this.run('systemctl', 'start', 'vmhostd')
    await this.controller.ready()
  }

  /**
   * Asks port 9001 of a host, from this one, with a certificate of this host. Returns the status and the body; status 0
   * if TLS fails.
   */
  async ask(other: LabHost, path: string, certificate = 'node'): Promise<{ status: number; body: string }> {
    const files = ['--cacert', `${TLS}/nodes-ca.crt`, '--cert', `${TLS}/${certificate}.crt`]
    const argv = ['curl', '--silent', ...files, '--key', `${TLS}/${certificate}.key`]
    const more = ['--max-time', '20', '--write-out', '\n%{http_code}', `https://${other.address}:9001${path}`]
    const { stdout, stderr } = await labExec(this.lab, [...argv, ...more], { timeoutMs: COMMAND_BOUND_MS })
    const at = stdout.lastIndexOf('\n')
    assert.ok(at >= 0, stderr)
    return { status: Number(stdout.slice(at + 1)), body: stdout.slice(0, at) }
  }
}

/** The labs that the runner has booted for these tests. */
export function bootedLabs(): readonly [LabState, LabState] {
  if (first === undefined || second === undefined) throw new Error('there are no two labs')
  return [first, second]
}
