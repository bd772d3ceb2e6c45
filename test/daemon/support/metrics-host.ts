import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ClientCertificates } from '../../../src/api/controller/client-certificates.ts'
import { createMetricsApi } from '../../../src/api/metrics/metrics-api.ts'
import { readAsset } from '../../../src/daemon/assets.ts'
import { silentLog } from '../../../src/log/log.ts'
import { clientWith } from './coordination-host.ts'
import { send, writePki } from './controller-host.ts'
import type { TestContext } from 'node:test'
import type { AnswerSeen } from '../../../src/api/listener/answer-end.ts'
import type { Answer, Pki } from './controller-host.ts'

export type MetricsHost = {
  readonly port: number
  /** The metrics that it serves. */
  readonly text: string
  /** The answers that were observed. */
  readonly seen: AnswerSeen[]
  /** The certificates of its readers. */
  readonly clients: ClientCertificates
}

/** Starts the listener for metrics on loopback with real TLS, for readers with these names. */
export async function startMetricsHost(
  t: TestContext,
  pki: Pki,
  commonNames: readonly string[],
): Promise<MetricsHost> {
  const directory = mkdtempSync(join(tmpdir(), 'metrics-'))
  const text = '# HELP up A figure.\n# TYPE up gauge\nup 1\n'
  const seen: AnswerSeen[] = []
  const clients = new ClientCertificates(Date.now)
  const api = await createMetricsApi({
    dependencies: {
      metrics: { scrape: async () => text },
      onAnswered: (answer) => seen.push(answer),
      onReader: (socket, isRevoked) => clients.noteSocket(socket, 'metrics', isRevoked),
      waitingFor: () => [],
      errorsMarkdown: () => readAsset('errors.md'),
      version: '1.2.3',
      log: silentLog,
    },
    address: '127.0.0.1',
    port: 0,
    commonNames,
    tlsFiles: writePki(directory, pki),
  })
  t.after(async () => {
    await api.close(0)
    rmSync(directory, { recursive: true })
  })
  return { port: api.port, text, seen, clients }
}

/** Sends a request with a certificate of this name. */
export async function readWith(
  { port }: MetricsHost,
  pki: Pki,
  commonName: string,
  path: string,
  method = 'GET',
): Promise<Answer> {
  const client = clientWith(pki, await pki.issue({ commonName }))
  return send(port, { path, method, client, api: 'metrics' })
}
