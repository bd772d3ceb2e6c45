/*
 * Checks the OpenAPI documents against the linter's `recommended` rules, without an exception: a warning fails like an
 * error. The remedy is a better document.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { coordinationDocument, metricsDocument, openapiDocument } from './openapi-document.ts'
import { checkout } from './paths.ts'
import { CommandFailed, run } from './process.ts'

const LINTER = path.join(checkout, 'node_modules/.bin/redocly')
const LINTER_BOUND_MS = 60_000
/** By default it sends usage figures and looks for newer versions of itself. */
const QUIET = { REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }

type Finding = {
  readonly ruleId: string
  readonly severity: string
  readonly message: string
  readonly location: readonly { readonly pointer?: string }[]
}

/** Returns the linter's findings on a document, one line each. */
export async function lintOpenApi(document: object): Promise<string[]> {
  // Outside the checkout, so that the linter finds no configuration and no list of exceptions.
  const folder = mkdtempSync(path.join(tmpdir(), 'openapi-lint-'))
  try {
    writeFileSync(path.join(folder, 'openapi.json'), JSON.stringify(document, undefined, 2))
    const argv = [process.execPath, LINTER, 'lint', '--extends=recommended', '--format=json', 'openapi.json']
    const result = await run(argv, {
      cwd: folder,
      env: { ...process.env, ...QUIET },
      timeoutMs: LINTER_BOUND_MS,
    })
    if (!result.stdout.startsWith('{')) throw new CommandFailed(argv, result)
    const { problems } = JSON.parse(result.stdout) as { readonly problems: readonly Finding[] }
    return problems.map(
      ({ ruleId, severity, message, location }) =>
        `${severity} ${ruleId} at ${location[0]?.pointer ?? '?'}: ${message}`,
    )
  } finally {
    rmSync(folder, { recursive: true })
  }
}

if (process.argv[1] === import.meta.filename) {
  for (const document of [await openapiDocument(), await coordinationDocument(), await metricsDocument()]) {
    const findings = await lintOpenApi(document)
    for (const finding of findings) console.error(finding)
    if (findings.length > 0) process.exitCode = 1
  }
}
