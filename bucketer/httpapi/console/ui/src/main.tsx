import './styles/app.css';
import { render } from 'preact';
import { keepSession } from './api/session';
import { listenToKeys } from './keys';
import { Shell } from './shell/Shell';

const root = document.getElementById('app');
if (root) {
  keepSession();
  listenToKeys();
  render(<Shell />, root);
}
