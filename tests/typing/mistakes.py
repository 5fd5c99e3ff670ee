"""What a user got wrong. Both type checkers have to report each line that ends with `# wrong`, and no other."""

import episodia
from episodia.connectors import FrameStacking, GeneralAdvantageEstimation

FrameStacking(num_frame=4)  # wrong
FrameStacking(num_frames="four")  # wrong
GeneralAdvantageEstimation(gama=0.5)  # wrong
episodes = episodia.SingleAgentEnvRunner("CartPole-v1", num_envs=2).sample(num_timesteps=10)
episodia.SingleAgentEnvRunner("CartPole-v1", num_env=2)  # wrong
episodes[0].get_retrun()  # wrong
episodes[0].get_return()
episodia.Polcy.load()  # wrong
