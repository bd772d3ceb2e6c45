import { ApiProblem, UnexpectedAnswer } from '../client/api-problem.ts'
import { ConnectionFailed } from '../client/connection-failed.ts'
import { errorChain } from '../log/error-chain.ts'
import { unreachable } from '../lib/assert.ts'
import { certificateFaults, commonNameOf } from './certificate-faults.ts'
import { CtlError } from './ctl-error.ts'
import { exitStatus } from './exit-status.ts'
import { withOptions } from './named-options.ts'
import type { Arguments, Kind } from './command.ts'
import type { ExitStatus } from './exit-status.ts'
import type { Problem } from '../client/api-problem.ts'
import type { Profile } from './profile.ts'

/** A failure as it is printed: what is wrong, what to do, and the exit status. */
export type Explanation = {
  readonly message: string
  readonly code: string
  readonly status: ExitStatus
  readonly advice: readonly string[]
  /** The daemon's answer. */
  readonly problem?: Problem
}

const KIND_WORDS: Readonly<Record<Kind, string>> = { vm: 'VMs', snapshot: 'snapshots', image: 'images' }

export type Circumstances = {
  readonly profile: Profile | undefined
  /** Subject of the command, with a placeholder if it has no name. */
  readonly kind: Kind
  readonly name: string
  /** The parsed command line, once there is one. */
  readonly given?: Arguments | undefined
  readonly nowMs: number
}

/** Explains any error that a command threw. */
export function explain(error: unknown, circumstances: Circumstances): Explanation {
  if (error instanceof CtlError) {
    const { code, status, advice } = error
    return { message: errorChain(error), code, status, advice }
  }
  if (error instanceof ApiProblem) return explainProblem(error, circumstances)
  if (error instanceof ConnectionFailed) {
    return {
      message: errorChain(error),
      code: `connection_${error.kind}`,
      status: exitStatus.unreachable,
      advice: connectionAdvice(error, circumstances),
    }
  }
  const { path = 'the profile', url = '' } = circumstances.profile ?? {}
  if (error instanceof UnexpectedAnswer) {
    const advice = [`something else answers at ${url}: is url in ${path} right?`]
    return { message: error.message, code: 'unexpected_answer', status: exitStatus.unreachable, advice }
  }
  return {
    message: `a bug: ${errorChain(error)}`,
    code: 'bug',
    status: exitStatus.failed,
    advice: stackOf(error),
  }
}

const stackOf = (error: unknown): string[] =>
  error instanceof Error
    ? (error.stack ?? '')
        .split('\n')
        .slice(1, 6)
        .map((line) => line.trim())
    : []

function explainProblem({ problem }: ApiProblem, circumstances: Circumstances): Explanation {
  const { code, detail, errors = [], request_id: request } = problem
  // The detail of a malformed request already repeats its findings.
  const told = errors.filter((finding) => !detail.includes(finding.detail))
  return {
    message: withOptions(detail, circumstances.given),
    code,
    status: exitStatus.failed,
    advice: [
      ...told.map((finding) => withOptions(`${finding.pointer} ${finding.detail}`, circumstances.given)),
      ...problemAdvice({ code, detail }, circumstances),
      `code ${code}, request ${request}; all codes: ${circumstances.profile?.url ?? ''}/docs/errors#${code}`,
    ],
    problem,
  }
}

function problemAdvice(
  { code, detail }: Pick<Problem, 'code' | 'detail'>,
  { profile, kind, name }: Circumstances,
): string[] {
  // Codes that only a VM has are answered only to commands about a VM.
  const vm = name
  switch (code) {
    case 'not_found':
      return kind === 'snapshot'
        ? ['vmhostctl snapshot ls and vmhostctl vm ls show what there is']
        : [`vmhostctl ${kind} ls shows the ${KIND_WORDS[kind]} there are`]
    case 'conflict':
      return [`vmhostctl ${kind} get ${name} shows what is there`]
    case 'vm_not_stopped':
      return [`vmhostctl vm stop ${vm} --wait, then the same again`]
    case 'vm_not_running':
      return [
        `vmhostctl vm start ${vm}, then the same again`,
        `vmhostctl console ${vm} --follow waits for its next start`,
      ]
    case 'console_viewers_full':
      return [`somebody must leave the console of ${vm} first`]
    case 'ssh_host_key_changed':
      return hostKeyAdvice(detail, vm)
    case 'vm_protected':
      return [`vmhostctl vm set ${vm} --protected no, then the same again`]
    case 'storage_inspection_failed':
      return [
        'on that host: is the pool there and mounted? the configuration has it as storage.pool_directory',
        'guests go on meanwhile, and the daemon looks again every few seconds',
      ]
    case 'systemd_unavailable':
      return ['on that host: systemctl status dbus; the daemon connects again by itself']
    case 'insufficient_capacity':
    case 'capacity_unknown':
      return ['vmhostctl sync shows what the host has left']
    case 'vm_deleting':
      return kind === 'vm'
        ? [`vmhostctl vm wait ${vm} --for gone ends when it is gone; then the name is free`]
        : []
    case 'image_in_use':
      return ['vmhostctl image ls names the VMs that are made of each image']
    case 'snapshot_failed':
      return [`vmhostctl snapshot rm ${name}, and take another one`]
    case 'snapshots_full':
      return ['vmhostctl snapshot ls --status completed shows what can go']
    case 'sleep_needs_network':
      return ['--ipv4 or --ipv6 gives it a network; --sleep-after 0 lets it run on']
    case 'too_many_vcpus':
      return ['--cpu gives it fewer']
    case 'disk_too_small':
      return ['--disk gives a larger one']
    case 'url_not_allowed':
      return [
        "the host's configuration says in object_store where it may speak to, and in storage.local_images_directory which files it takes",
      ]
    case 'starting_up':
      return ['the daemon has just been started: the same again in a moment']
    case 'forbidden':
      return [
        `${profile?.files.cert ?? 'the certificate'} is for ${commonNameOf(profile ?? NO_PROFILE) ?? 'nobody'}; the host's ` +
          'configuration says in controller.common_name whom it wants',
      ]
    case 'internal':
      return ['this is a bug of vmhostd: its log has the request with a stack']
    default:
      return []
  }
}

function hostKeyAdvice(detail: string, vm: string): string[] {
  // The detail has the fingerprint in the form of a query.
  const [fingerprint = 'FINGERPRINT'] =
    /(?<=accept_host_key=)SHA256:(?:[a-z0-9+/]|%2[bf]){43}/i.exec(detail) ?? []
  return [
    'somebody may stand in the place of the guest; nothing that you typed was sent to it',
    'if the guest was set up again, this accepts its new key:',
    `  vmhostctl console ${vm} --ssh --accept-host-key ${decodeURIComponent(fingerprint)}`,
  ]
}

const NO_PROFILE: Profile = {
  path: '',
  url: '',
  ca: '',
  cert: '',
  key: '',
  files: { ca: '', cert: '', key: '' },
}

function connectionAdvice(
  { kind }: ConnectionFailed,
  { profile = NO_PROFILE, nowMs }: Circumstances,
): string[] {
  const { path, url, files } = profile
  switch (kind) {
    case 'refused':
      return [`on that host: systemctl status vmhostd`, `or is url in ${path} wrong? it is ${url}`]
    case 'unresolved':
    case 'unreachable':
      return [`is url in ${path} right? it is ${url}`]
    case 'late':
      return ['on that host: systemctl status vmhostd, and journalctl --unit=vmhostd']
    case 'untrusted':
      return [
        `ca in ${path} is ${files.ca}: it must be the ca.crt of that very host`,
        'where it is, somebody else answers under this name: do not go on',
      ]
    case 'wrong_name':
      return [
        `write one of those names into url in ${path}, which is ${url}`,
        'or give the host a certificate with this one: remove its server.crt and server.key, then vmhostd setup --san NAME',
      ]
    case 'expired':
      return [
        'is the clock of this machine right?',
        'where it is, the host needs a new certificate: remove its server.crt and server.key, then vmhostd setup',
      ]
    case 'unwelcome':
      return unwelcomeAdvice(profile, nowMs)
    case 'not_tls':
      return [
        `is the port in ${url} that of the controller API? see controller.port of the host's configuration`,
      ]
    case 'broken':
      return ['the same again is safe', 'on that host: journalctl --unit=vmhostd']
    default:
      return unreachable(kind)
  }
}

function unwelcomeAdvice(profile: Profile, nowMs: number): string[] {
  const faults = certificateFaults(profile, nowMs)
  if (faults.length > 0)
    return [...faults, `take the controller's certificate of that host for cert in ${profile.path}`]
  return [
    `cert in ${profile.path} is ${profile.files.cert}: it must be signed by the authority that the host trusts`,
    'the log of the host has the reason: journalctl --unit=vmhostd | grep handshake',
  ]
}
