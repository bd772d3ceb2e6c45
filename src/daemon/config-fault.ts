import { errorChain } from '../log/error-chain.ts'
import type { ConfigError } from '../config/config.ts'

/** Returns all that is wrong with a configuration: a line for each key, or in one line why its file cannot be read. */
export const configFault = (error: ConfigError): string =>
  error.cause === undefined ? error.message : errorChain(error)
